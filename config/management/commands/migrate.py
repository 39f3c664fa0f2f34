"""`manage.py migrate`: Django's command, which then marks the data folder."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from config import installation


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if not (options["plan"] or options["check_unapplied"]):
            installation.after_migrate()
