"""`manage.py create_token USER --name N [--expires-in 30d]` prints the token and nothing else."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actions import create_token
from apps.accounts.rules import named_user
from apps.accounts.serializers import CreateToken
from apps.core import command
from apps.core.serializers import validated


class Command(command.Command):
    help = "Make an API token for a person and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="whose token")
        parser.add_argument("--name", required=True, help="what the token is for")
        parser.add_argument(
            "--expires-in",
            metavar="DURATION",
            help='how long it lives, such as "30d"; else for ever',
        )

    def run(self, **options: Any) -> str:
        user = named_user(options["user"])
        wanted = {"name": options["name"], "expires_at": options["expires_in"]}
        _, text = create_token(by=None, owner=user, **validated(CreateToken(), wanted))
        return text
