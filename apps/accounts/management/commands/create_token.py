"""`manage.py create_token USER --name N [--expires-in 30d] [--permission read] [--repo PATH]…`
prints the token and nothing else.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actions import create_token
from apps.accounts.rules import named_user
from apps.accounts.serializers import CreateToken
from apps.core import command
from apps.core.access import Permission
from apps.core.serializers import validated


class Command(command.Command):
    help = "Create an API token for a person and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the username of its owner")
        parser.add_argument("--name", required=True, help="the name of the token")
        parser.add_argument(
            "--expires-in",
            metavar="DURATION",
            help='how long it is valid, such as "30d"; without it, it never expires',
        )
        parser.add_argument(
            "--permission",
            default=Permission.ADMIN.value,
            help="read, write, or admin, which is everything that its owner may do (the default)",
        )
        parser.add_argument(
            "--repo",
            action="append",
            metavar="PATH",
            help="limit it to this repository, such as teams/acme/api; may be repeated",
        )

    def run(self, **options: Any) -> str:
        user = named_user(options["user"])
        values = {
            "name": options["name"],
            "expires_at": options["expires_in"],
            "permission": options["permission"],
            "repo_paths": options["repo"],
        }
        _, text = create_token(principal=None, owner=user, **validated(CreateToken(), values))
        return text
