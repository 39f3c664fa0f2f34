"""`manage.py adopt_folder`"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from apps.core import command
from config import installation


class Command(command.Command):
    help = (
        "Mark DATA_DIR as the folder of this database. Run it once after you have restored one of "
        "them on purpose, and then check_repos and check_uploads."
    )

    def run(self, **_: Any) -> str:
        installation.adopt()
        return f"{settings.DATA_DIR} is the folder of this database."
