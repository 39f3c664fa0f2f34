"""Rules about accounts: valid names, passwords and addresses, and who may invite or sign up."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from apps.accounts.models import (
    NOT_GONE,
    ApiToken,
    Invite,
    InviteStatus,
    User,
    validate_username,
)
from apps.accounts.principal import Principal
from apps.core.access import Permission
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from apps.core.json import quoted
from apps.core.locks import lock
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
"""Orderings of tokens."""
SORTS = ["-created_at", "created_at", "expires_at", "-expires_at", "email", "-email"]
"""Orderings of invites."""
REPO_PATH = r"([Tt][Ee][Aa][Mm]|[Uu][Ss][Ee][Rr])[Ss]/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100}"
"""The form of a repository's path."""
INVITES_COUNT_FOR = dt.timedelta(hours=24)


def token_status(token: ApiToken) -> TokenStatus:
    """The status of a token. A token that is both revoked and expired is `revoked`."""
    if token.revoked_at is not None:
        return TokenStatus.REVOKED
    return TokenStatus.EXPIRED if token.is_expired else TokenStatus.ACTIVE


def people_of_token(token: ApiToken) -> list[User]:
    """The people who are pinged about a token: its owner, or the owners of the team of a bot."""
    if not token.user.is_bot:
        return [token.user]
    of_team = {"memberships__role": "owner", "memberships__team__members__user": token.user}
    return [*User.objects.filter(is_active=True, **of_team).order_by("pk")]


def repo_path_problem(path: str) -> str | None:
    """The reason why this cannot be the path of a repository; None if it can."""
    is_path = re.fullmatch(REPO_PATH, path)
    return None if is_path else 'Must be like "teams/acme/api" or "users/ada/notes".'


def check_outlived(principal: Principal | None, ends_at: dt.datetime | None) -> None:
    """403 `role_required` if the caller's credential ends sooner than a text that it would get."""
    own = None if principal is None else principal.expires_at
    if own is not None and (ends_at is None or ends_at > own):
        raise Forbidden("role_required", "The token would outlive the token of this request.")


def named_user(username: str) -> User:
    """The person with this username, ignoring case, in a body or command; 422 `user_not_found`."""
    user = User.objects.filter(NOT_GONE, username_key=username.lower()).first()
    if user is None:
        raise Invalid("user_not_found", f"There is no user {quoted(username)}.")
    return user


def check_no_bot(user: User, field: str) -> None:
    """422 for a bot, where a body has to name a person in this field."""
    if user.is_bot:
        raise Invalid("validation_failed", f"{field}: {user} is a bot, and not a person.")


def check_fits_bots(user: User, *values: str | bool | None) -> None:
    """422 if one of these values, which only people have, is set for a bot."""
    if any(values):
        check_no_bot(user, "username")


def check_manages_account(principal: Principal, user: User) -> None:
    """People manage their own account, and staff all. 401; 403 `staff_required`, `token_scope`,
    `person_required` for a bot.
    """
    principal.check_permission(Permission.ADMIN)
    principal.check_self_or_staff(user.pk, "account")
    principal.check_person()


def check_manages_tokens(principal: Principal, owner: User) -> None:
    """People manage their own tokens, owners of a team those of its bots, and staff all; else 403
    `staff_required`, 403 `person_required` for a bot.
    """
    own: dict[str, Any] = {
        "team__members__user": principal.user,
        "team__members__role": "owner",
    }
    if principal.lacks_second_factor:
        own["team__second_factor_required"] = False
    if owner.is_bot and owner.memberships.filter(team__deletion=None, **own).exists():
        return
    principal.check_self_or_staff(owner.pk, "tokens")
    principal.check_person()


def check_username(username: str) -> None:
    """422 for an invalid username."""
    _check("username", validate_username, username)


def display_name_problem(name: str) -> str | None:
    """The reason why this cannot be a display name; None if it can. It may be empty."""
    if has_controls(name):
        return f"A name may not contain {CONTROLS}."
    is_visible = any(char.isprintable() and not char.isspace() for char in name)
    return None if name == "" or is_visible else "A name needs at least one visible character."


def check_display_name(name: str) -> None:
    """422 for an invalid display name."""
    problem = display_name_problem(name)
    if problem is not None:
        raise Invalid("validation_failed", f"display_name: {problem}")


def check_email(email: str) -> None:
    """422 for an invalid e-mail address. It may be empty."""
    if email:
        _check("email", validate_email, email)


def asks_password(user: User) -> bool:
    """Whether pages ask the person for a password: not those who only sign in by OpenID Connect."""
    if not settings.OIDC_ISSUER:
        return True
    return settings.LOCAL_PASSWORDS and user.has_usable_password()


def check_has_password(user: User) -> None:
    """403 for a person who only signs in by OpenID Connect."""
    if not asks_password(user):
        raise Forbidden("forbidden", f"You sign in by {settings.OIDC_NAME}, without a password.")


def check_local_passwords() -> None:
    """403 if people sign in by OpenID Connect alone."""
    if not settings.LOCAL_PASSWORDS:
        text = f"This site has no passwords of its own. Sign in by {settings.OIDC_NAME}."
        raise Forbidden("forbidden", text)


def check_password(password: str, user: User) -> None:
    """422 for a password that is too short, too common, or too similar to the person's names."""
    _check("password", validate_password, password, user)


def _check(name: str, validate: Callable[..., None], *values: Any) -> None:
    try:
        validate(*values)
    except ValidationError as error:
        raise Invalid("validation_failed", f"{name}: {' '.join(error.messages)}") from None


def may_invite(principal: Principal) -> bool:
    """Whether the principal may create invites. The site's settings say if only staff may."""
    return principal.is_staff or SiteSettings.load().signup_invite_creators == InviteCreators.USERS


def check_invites_open(principal: Principal) -> None:
    """403 `staff_required` if only staff may create invites."""
    if not may_invite(principal):
        raise Forbidden("staff_required", "On this site only staff can create invites.")


def check_may_invite(principal: Principal, settings: SiteSettings) -> None:
    """Check the caller's permission, the age of their account, and their invites of 24 hours.

    The limits apply to staff too, and deleted invites count. The caller has locked the person.
    Errors: 403 `staff_required`, 403 `account_too_young`, 429 `signup_invite_limit_reached` with
    `Retry-After`.
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
    """Check whether a person may sign up with this invite, or without one, and this address.

    Errors: 403 `forbidden` if sign-up is closed or needs an invite; 404 for a deleted invite, 409
    `invite_already_accepted`, 409 `invalid_transition` for an expired one; 422 if the invite is for
    another address.
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
    """409 for an invite that has already been accepted."""
    return Conflict("invite_already_accepted", "This invite has already been accepted.")


def check_confirmed(name: str, confirm: str) -> None:
    """422 unless somebody who deletes something has typed its name."""
    if confirm != name:
        raise Invalid("validation_failed", f"confirm: Type {name} to delete it.")


def check_staff_remains(user: User) -> None:
    """409 for the last active member of staff. Locks all active staff, in a fixed order."""
    staff = User.objects.select_for_update(no_key=True).filter(is_staff=True, is_active=True)
    if [person.pk for person in staff.order_by("pk")] == [user.pk]:
        raise Conflict(
            "invalid_transition",
            f"{user} is the last active member of staff. Make somebody else staff first.",
        )


def check_owns_no_team_alone(user: User) -> None:
    """409 `last_owner` with the teams that would be left without an active owner. Locks the teams
    that the person owns.
    """
    alone = []
    owned = user.memberships.filter(role="owner", team__deletion=None).select_related("team")
    for member in owned.order_by("team"):
        lock(member.team)
        others = member.team.members.filter(role="owner", user__is_active=True)
        if not others.exclude(user=user).exists():
            alone.append(member.team.slug)
    if alone:
        raise Conflict(
            "last_owner",
            f"{user} is the last owner of {', '.join(alone)}. Make somebody else an owner first, "
            "or delete the team.",
        )
