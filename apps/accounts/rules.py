"""Closed vocabularies of accounts and yes/no questions about them."""

from __future__ import annotations

from enum import StrEnum

from apps.accounts.models import ApiToken, User
from apps.core.errors import Invalid


class TokenStatus(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


ORDERINGS = [
    "-created_at",
    "created_at",
    "name",
    "-name",
    "expires_at",
    "-expires_at",
    "last_used_at",
    "-last_used_at",
]


def token_status(token: ApiToken) -> TokenStatus:
    """Revoked wins over expired: somebody decided it."""
    if token.revoked_at is not None:
        return TokenStatus.REVOKED
    return TokenStatus.EXPIRED if token.is_expired else TokenStatus.ACTIVE


def named_user(username: str) -> User:
    """The person a body or a command names, ignoring case; 422 `user_not_found`."""
    user = User.objects.filter(username_key=username.lower()).first()
    if user is None:
        raise Invalid("user_not_found", f'There is no user "{username[:100]}".')
    return user
