"""`manage.py list_tokens [USER]`"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.models import ApiToken
from apps.accounts.rules import named_user, token_status
from apps.core import command
from apps.core.json import quoted


class Command(command.Command):
    help = "List API tokens with uuid, owner, status, first characters and name; never the secrets."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "user", nargs="?", help="the username of their owner; without it, all tokens"
        )

    def run(self, **options: Any) -> str:
        tokens = ApiToken.objects.select_related("user").order_by("user__username_key", "id")
        if options["user"]:
            tokens = tokens.filter(user=named_user(options["user"]))
        return "\n".join(
            f"{token.uuid}  {token.user.username}  {token_status(token)}  "
            f"{token.token_prefix}…  {quoted(token.name, 255)}"
            for token in tokens.iterator()
        )
