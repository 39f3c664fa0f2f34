"""What changes accounts. Each function is one transaction, one change and its event."""

from __future__ import annotations

import datetime as dt

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import SHOWN, TOKEN_PREFIX, ApiToken, User, digest, new_token
from apps.core.errors import Conflict, Forbidden, Invalid
from apps.core.locks import lock
from apps.core.slugs import username_problem
from apps.events.kinds import Kind
from apps.events.record import record


@transaction.atomic
def create_user(
    *,
    actor: User | None,
    username: str,
    email: str = "",
    password: str | None = None,
    is_staff: bool = False,
) -> User:
    """Add a person; `actor` None is the operator at the command line.

    Errors: 422 for a name that cannot be one, 409 `slug_taken`.
    """
    problem = username_problem(username)
    if problem is not None:
        raise Invalid("validation_failed", f"username: {problem}")
    try:
        with transaction.atomic():
            user = User.objects.create_user(
                username, email, password, is_staff=is_staff, is_superuser=is_staff
            )
    except IntegrityError:
        raise Conflict("slug_taken", f'The username "{username}" is taken.') from None
    record(Kind.USER_JOINED, actor=actor or user, about=user)
    return user


@transaction.atomic
def create_token(
    *, actor: User, owner: User, name: str, expires_at: dt.datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token and return it with its text, which is not kept anywhere.

    Errors: 403 `staff_required` for somebody else's token unless staff asks.
    """
    _check_owner(actor, owner)
    text = new_token()
    token = ApiToken.objects.create(
        user=owner,
        name=name,
        digest=digest(text),
        token_prefix=text[: len(TOKEN_PREFIX) + SHOWN],
        expires_at=expires_at,
    )
    record(Kind.TOKEN_CREATED, actor=actor, about=token, data={"name": name})
    return token, text


@transaction.atomic
def revoke_token(*, actor: User, token: ApiToken) -> None:
    """End a token for good; doing it again changes nothing (behaviour.md §7)."""
    _check_owner(actor, token.user)
    lock(token)
    if token.revoked_at is not None:
        return
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record(Kind.TOKEN_REVOKED, actor=actor, about=token, data={"name": token.name})


@transaction.atomic
def delete_token(*, actor: User, token: ApiToken) -> None:
    """Remove a token; whoever still sends it gets 401."""
    _check_owner(actor, token.user)
    lock(token)
    keys = {"name": token.name}
    ApiToken.objects.filter(pk=token.pk).delete()
    record(Kind.TOKEN_DELETED, actor=actor, about=token, data=keys)


def _check_owner(actor: User, owner: User) -> None:
    if actor.pk != owner.pk and not actor.is_staff:
        raise Forbidden("staff_required", "Only staff may handle somebody else's tokens.")
