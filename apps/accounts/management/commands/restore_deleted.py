"""`manage.py restore_deleted teams/acme/api`"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actions import restore
from apps.accounts.models import Deletion
from apps.core import command


class Command(command.Command):
    help = "Restore a deleted repository, team or account. Without a path, list them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "path", nargs="?", help="teams/acme/api, teams/acme or users/alice, as listed"
        )

    def run(self, **options: Any) -> str:
        if options["path"] is None:
            rows = Deletion.objects.filter(is_purging=False).order_by("purge_at")
            return "\n".join(f"{row} until {row.purge_at:%Y-%m-%d %H:%M} UTC" for row in rows)
        deletion = Deletion.objects.filter(path=options["path"]).order_by("-pk").first()
        if deletion is None:
            raise ValueError(f"There is no deletion of {options['path']}.")
        restore(principal=None, deletion=deletion)
        return f"Restored {deletion.path}."
