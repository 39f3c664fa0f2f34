"""`manage.py revoke_token UUID`"""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.actions import revoke_token
from apps.accounts.models import ApiToken
from apps.core import command


class Command(command.Command):
    help = "Revoke an API token. list_tokens shows the uuids."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uuid", help="the token's uuid")

    def run(self, **options: Any) -> str:
        tokens = ApiToken.objects.select_related("user")
        token = tokens.filter(uuid=uuid.UUID(options["uuid"])).first()
        if token is None:
            raise ValueError(f"There is no token {options['uuid']}.")
        revoke_token(principal=None, token=token)
        return f"Revoked {token.token_prefix}… of {token.user.username}."
