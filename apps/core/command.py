"""Management commands that fail with one line on standard error."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from apps.core.errors import ApiError
from apps.core.origins import running


class Command(BaseCommand):
    """Turns errors into a CommandError of one line; subclasses implement `run`."""

    requires_system_checks = []  # they load every view, which takes longer than the command

    def handle(self, *args: Any, **options: Any) -> str | None:
        try:
            with running(type(self).__module__.rpartition(".")[2]):
                return self.run(**options)
        except ValidationError as error:
            raise one_line(" ".join(error.messages)) from None
        except (ApiError, ValueError) as error:
            raise one_line(str(error)) from None
        except DatabaseError as error:
            raise one_line(f"{error} (Has manage.py migrate been run?)") from error

    def run(self, **options: Any) -> str | None:
        """Do the work of the command; return the text to print."""
        raise NotImplementedError


def one_line(text: str) -> CommandError:
    return CommandError(" ".join(text.split()))
