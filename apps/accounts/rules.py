"""Closed vocabularies of accounts and yes/no questions about them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from apps.accounts.models import ApiToken, Invite, InviteStatus, User, validate_username
from apps.accounts.principal import Principal
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from apps.core.json import quoted
from apps.site.models import InviteCreators, SiteSettings


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


SORTS = ["-created_at", "created_at", "expires_at", "-expires_at", "email", "-email"]
INVITES_COUNT_FOR = dt.timedelta(hours=24)


def token_status(token: ApiToken) -> TokenStatus:
    """Revoked wins over expired: somebody decided it."""
    if token.revoked_at is not None:
        return TokenStatus.REVOKED
    return TokenStatus.EXPIRED if token.is_expired else TokenStatus.ACTIVE


def named_user(username: str) -> User:
    """The person a body or a command names, ignoring case; 422 `user_not_found`."""
    user = User.objects.filter(username_key=username.lower()).first()
    if user is None:
        raise Invalid("user_not_found", f"There is no user {quoted(username)}.")
    return user


def check_username(username: str) -> None:
    """422 for a text that cannot be a username."""
    _check("username", validate_username, username)


def display_name_problem(name: str) -> str | None:
    """Why nobody can be called this; None when somebody can. The empty text is no name."""
    if has_controls(name):
        return f"A name may not contain {CONTROLS}."
    is_seen = any(one.isprintable() and not one.isspace() for one in name)
    return None if name == "" or is_seen else "A name needs at least one visible character."


def check_display_name(name: str) -> None:
    """422 for a text that cannot be a display name."""
    problem = display_name_problem(name)
    if problem is not None:
        raise Invalid("validation_failed", f"display_name: {problem}")


def check_email(email: str) -> None:
    """422 for a text that cannot be an e-mail address; none at all is fine."""
    if email:
        _check("email", validate_email, email)


def check_password(password: str, user: User) -> None:
    """422 for a password that is too short, too common, or too near the person's names."""
    _check("password", validate_password, password, user)


def _check(name: str, validate: Callable[..., None], *values: Any) -> None:
    try:
        validate(*values)
    except ValidationError as error:
        raise Invalid("validation_failed", f"{name}: {' '.join(error.messages)}") from None


def may_invite(principal: Principal) -> bool:
    """Whether somebody makes invites at all: staff, or everybody where the site says so."""
    return principal.is_staff or SiteSettings.load().signup_invite_creators == InviteCreators.USERS


def check_invites_open(principal: Principal) -> None:
    """403 `staff_required` where only staff invites."""
    if not may_invite(principal):
        raise Forbidden("staff_required", "On this site only staff can create invites.")


def check_may_invite(principal: Principal, settings: SiteSettings) -> None:
    """Who may invite, from what age on, and how many in 24 hours; staff is no exception.

    Deleted invites count. The caller has locked the person. Errors: 403 `staff_required`,
    403 `account_too_young`, 429 `signup_invite_limit_reached`, which says when to try again.
    """
    check_invites_open(principal)
    user = principal.user
    now, most = timezone.now(), settings.signup_invite_max_per_24h
    if now - user.created_at < settings.min_account_age:
        age = settings.signup_invite_min_account_age
        raise Forbidden(
            "account_too_young", f"Your account must be {age} old before you can invite."
        )
    if most == 0:
        raise TooMany("signup_invite_limit_reached", "Invites are disabled at the moment.")
    since = now - INVITES_COUNT_FOR
    recent = Invite.objects.filter(created_by=user, created_at__gt=since).order_by("-created_at")
    for oldest in recent[most - 1 : most]:
        wait = math.ceil((oldest.created_at - since).total_seconds())
        raise TooMany(
            "signup_invite_limit_reached",
            f"You have reached the limit of {most} invites in 24 hours.",
            headers={"Retry-After": str(wait)},
        )


def check_may_join(settings: SiteSettings, invite: Invite | None, email: str) -> None:
    """Whether somebody may sign up with this invite, or without one, and this address.

    Errors: 403 `forbidden` where signing up is closed or needs an invite; 404 for a deleted
    invite, 409 `invite_already_accepted`, 409 `invalid_transition` for an expired one; 422 for
    another address than that of the invite.
    """
    if not settings.signups_enabled:
        raise Forbidden("forbidden", "Sign-up is closed at the moment.")
    if invite is None:
        if settings.signups_require_invite:
            raise Forbidden("forbidden", "You need an invite to sign up.")
        return
    if invite.deleted_at is not None:
        raise NotFound("not_found", "This invite does not exist.")
    if invite.status is InviteStatus.ACCEPTED:
        raise already_accepted()
    if invite.status is InviteStatus.EXPIRED:
        raise Conflict("invalid_transition", "This invite has expired.")
    if invite.email_key not in {"", email.lower()}:
        raise Invalid("validation_failed", "email: This invite is for another e-mail address.")


def already_accepted() -> Conflict:
    """409 for whatever is wanted of an invite that somebody has accepted."""
    return Conflict("invite_already_accepted", "This invite has already been accepted.")
