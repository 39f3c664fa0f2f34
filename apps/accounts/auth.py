"""Who is calling: bearer and basic, both carrying an API token (contract, Authentication)."""

from __future__ import annotations

import base64
from typing import NoReturn

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User, digest
from apps.core.errors import Unauthenticated
from apps.core.statements import Statement

BY_DIGEST = Statement(
    """
    SELECT {token}, {person} FROM "accounts_apitoken" token
    JOIN "accounts_user" person ON person.id = token.user_id
    WHERE token.digest = %s
    """,
    token=ApiToken,
    person=User,
)


class TokenAuthentication(BaseAuthentication):
    """Basic takes an empty username or the token owner's (behaviour.md §4)."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        credentials = credentials_of(request._request)
        if credentials is None:
            return None
        username, text = credentials
        token = usable_token(text, username)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="Guildhall", Basic realm="Guildhall"'


def credentials_of(request: HttpRequest) -> tuple[str, str] | None:
    """`(username, token text)` of the Authorization header; None without one, 401 for a bad one."""
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if not header:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return "", value.strip()
    if scheme.lower() != "basic":
        refuse()
    try:
        username, colon, text = (
            base64.b64decode(value.strip(), validate=True).decode().partition(":")
        )
    except ValueError:  # no base64, text beyond ASCII, no UTF-8
        refuse()
    return (username, text) if colon else refuse()


def usable_token(text: str, username: str = "") -> ApiToken:
    """The active token with this text; 401 in one and the same way for every other text.

    `username`, where one is given, has to be its owner's. Only a call that is let in is a use.
    """
    token = token_of(text)
    if token is None or not token.is_usable:
        refuse()
    if username and username.lower() != token.user.username_key:
        refuse()
    if not token.user.is_active:
        raise Unauthenticated("inactive_user", "This account has been deactivated.")
    token.touch()
    return token


def token_of(text: str) -> ApiToken | None:
    """The token with this text, and its person with it."""
    found = BY_DIGEST.first(digest(text))
    if found is None:
        return None
    token: ApiToken
    token, token.user = found
    return token


def refuse() -> NoReturn:
    """Unknown, expired and revoked are one answer (behaviour.md §6)."""
    raise Unauthenticated("invalid_token", "This API token is not valid.")
