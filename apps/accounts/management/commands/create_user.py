"""`manage.py create_user NAME [--staff] [--email ADDRESS] [--password-stdin]`"""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actions import create_user
from apps.core import command


class Command(command.Command):
    help = "Create an account. A password is optional; create_token creates a token for it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the username: letters and digits, with - _ . between")
        parser.add_argument(
            "--staff", action="store_true", help="may use /admin/ and read everything"
        )
        parser.add_argument(
            "--email", default="", metavar="ADDRESS", help="the e-mail address, for password resets"
        )
        parser.add_argument(
            "--password-stdin", action="store_true", help="read a password from standard input"
        )

    def run(self, **options: Any) -> str:
        password = sys.stdin.readline().rstrip("\n") if options["password_stdin"] else None
        user = create_user(
            principal=None,
            username=options["name"],
            email=options["email"],
            is_staff=options["staff"],
            password=password,
        )
        return f"Created {user.username}."
