"""Closed vocabularies of accounts and yes/no questions about them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from apps.accounts.models import ApiToken, User
from apps.core.errors import Forbidden, Invalid
from apps.core.slugs import username_problem


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


def check_staff(actor: User) -> None:
    """403 `staff_required` for everybody else."""
    if not actor.is_staff:
        raise Forbidden("staff_required", "Only staff may do this.")


def check_self_or_staff(actor: User, user: User) -> None:
    """An account is its person's business, and the staff's; 403 `staff_required`."""
    if actor.pk != user.pk and not actor.is_staff:
        raise Forbidden("staff_required", "Only staff may change somebody else's account.")


def check_owner(actor: User, owner: User) -> None:
    """Tokens are their owner's business, and the staff's; 403 `staff_required`."""
    if actor.pk != owner.pk and not actor.is_staff:
        raise Forbidden("staff_required", "Only staff may handle somebody else's tokens.")


def check_username(username: str) -> None:
    """422 for a text that cannot be a username."""
    problem = username_problem(username)
    if problem is not None:
        raise Invalid("validation_failed", f"username: {problem}")


def check_email(email: str) -> None:
    """422 for a text that cannot be an e-mail address; none at all is fine."""
    if email:
        _check("email", lambda: validate_email(email))


def check_password(password: str, user: User) -> None:
    """422 for a password that is too short, too common, or too near the person's names."""
    _check("password", lambda: validate_password(password, user))


def _check(name: str, validate: Callable[[], None]) -> None:
    try:
        validate()
    except ValidationError as error:
        raise Invalid("validation_failed", f"{name}: {' '.join(error.messages)}") from None
