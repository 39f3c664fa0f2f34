"""`manage.py runserver`: daphne's development server, with the live stream.

daphne is not an installed app, which would load Twisted and its reactor in every command.
"""

from __future__ import annotations

from typing import Any

from daphne.management.commands import runserver
from django.conf import settings

from config.static import collect


class Command(runserver.Command):  # type: ignore[misc] # daphne has no types
    def inner_run(self, *args: Any, **options: Any) -> None:
        """Serve. Links and stream frames use the address of the server."""
        settings.HOST, settings.PORT = self.addr, int(self.port)
        collect()
        super().inner_run(*args, **options)
