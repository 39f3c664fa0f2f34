"""`manage.py migrate`: Django's command, one at a time, which then marks the data folder."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from config import installation
from config.migrate_lock import one_at_a_time


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        """Wait until no other process migrates. The order does not matter: the second finds that
        nothing is left to do.
        """
        with one_at_a_time(connections[options["database"]], self.stderr.write):
            super().handle(*args, **options)
            if not (options["plan"] or options["check_unapplied"]):
                installation.after_migrate()
