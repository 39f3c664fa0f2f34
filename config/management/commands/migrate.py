"""`manage.py migrate`: Django's command, one at a time."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from config.migrate_lock import one_at_a_time


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        """Wait until no other process migrates. The order does not matter: the second finds that
        nothing is left to do.
        """
        with one_at_a_time(connections[options["database"]], self.stderr.write):
            super().handle(*args, **options)
