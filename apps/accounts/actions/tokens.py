"""What changes API tokens: made, revoked, deleted."""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import SHOWN, TOKEN_PREFIX, ApiToken, User, digest, new_token
from apps.accounts.principal import Principal
from apps.core.errors import Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record


@transaction.atomic
def create_token(
    *, by: Principal | None, owner: User, name: str, expires_at: dt.datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token and return it with its text, which is not kept anywhere.

    `by` None is the operator at the command line, here and below: the event names the owner.
    Errors: 403 `staff_required` for somebody else's token unless staff asks; 422 for an account
    that has been deactivated.
    """
    actor = _actor(by, owner)
    if not owner.is_active:
        raise Invalid("validation_failed", f"username: {owner} has been deactivated.")
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
def revoke_token(*, by: Principal | None, token: ApiToken) -> None:
    """End a token for good; doing it again changes nothing, and records nothing."""
    actor = _actor(by, token.user)
    lock(token)
    if token.revoked_at is not None:
        return
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record(Kind.TOKEN_REVOKED, actor=actor, about=token, data={"name": token.name})


@transaction.atomic
def delete_token(*, by: Principal | None, token: ApiToken) -> None:
    """Remove a token; whoever still sends it gets 401."""
    actor = _actor(by, token.user)
    lock(token)
    keys = {"name": token.name}
    ApiToken.objects.filter(pk=token.pk).delete()
    record(Kind.TOKEN_DELETED, actor=actor, about=token, data=keys)


def _actor(by: Principal | None, owner: User) -> User:
    """Who acts on a token: its owner, or staff; 401, 403."""
    if by is None:
        return owner
    by.check_may_change_of(owner.pk, "tokens")
    return by.user
