"""`manage.py reset_second_factor USERNAME`"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.rules import named_user
from apps.accounts.second_factors.actions import reset_second_factor
from apps.core import command


class Command(command.Command):
    help = (
        "Remove the second factor of a person who has lost it, and sign them out. Check first that "
        "it is them: their password alone then signs in. They get an e-mail."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the person")

    def run(self, **options: Any) -> str:
        user = named_user(options["username"])
        if not user.has_second_factor:
            return f"{user} has no second factor."
        reset_second_factor(principal=None, user=user)
        return f"{user} has no second factor any more, and is signed out."
