"""A management command that fails with one line on standard error (behaviour.md §10)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.core.errors import ApiError


class Command(BaseCommand):
    """Turns a refusal of an action into a CommandError; subclasses implement `run`."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        try:
            return self.run(**options)
        except (ApiError, ValueError) as error:
            raise CommandError(str(error)) from None

    def run(self, **options: Any) -> str | None:
        """The command's work; returns the text to print."""
        raise NotImplementedError
