"""What changes signup invites: made, changed, deleted. `sign_up` accepts them."""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.utils import timezone

from apps.accounts import rules
from apps.accounts.models import Invite, InviteStatus, User
from apps.core.changes import given, set_changed
from apps.core.errors import NotFound
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site.models import SiteSettings


@transaction.atomic
def create_invite(*, actor: User, expires_at: dt.datetime, email: str = "") -> Invite:
    """Invite somebody: whoever has the link, or only a person who signs up with `email`.

    Locks the actor, so that two at once cannot pass the limit together. Errors: 403
    `staff_required` where only staff invites, 403 `account_too_young`, 429
    `signup_invite_limit_reached`, 422.
    """
    lock(actor)
    rules.check_may_invite(actor, SiteSettings.load())
    rules.check_email(email)
    invite = Invite.objects.create(created_by=actor, expires_at=expires_at, email=email)
    record(Kind.INVITE_CREATED, actor=actor, about=invite)
    return invite


@transaction.atomic
def update_invite(
    *,
    actor: User,
    invite: Invite,
    email: str | None = None,
    expires_at: dt.datetime | None = None,
) -> None:
    """Change whom it is for (empty: whoever has the link) and when it ends; None leaves as is.

    An end in the future makes an expired invite pending again. Locks it. Errors: 403
    `staff_required`, 404 when deleted, 409 `invite_already_accepted`, 422.
    """
    _lock(actor, invite)
    if invite.accepted_at is not None:
        raise rules.already_accepted()
    rules.check_email(email or "")
    changed = set_changed(invite, given(email=email, expires_at=expires_at))
    if not changed:
        return
    invite.save()
    record(Kind.INVITE_UPDATED, actor=actor, about=invite, data={"changed": changed})


@transaction.atomic
def expire_invite(*, actor: User, invite: Invite) -> None:
    """End an invite now; one that has ended already stays as it is. As `update_invite`."""
    _lock(actor, invite)
    if invite.status is not InviteStatus.EXPIRED:
        update_invite(actor=actor, invite=invite, expires_at=timezone.now())


@transaction.atomic
def delete_invite(*, actor: User, invite: Invite) -> None:
    """Take an invite away, whatever its state; it stays on record. 403, 404. Locks it."""
    _lock(actor, invite)
    invite.deleted_at = timezone.now()
    invite.save(update_fields=["deleted_at"])
    record(Kind.INVITE_DELETED, actor=actor, about=invite)


def _lock(actor: User, invite: Invite) -> None:
    """An invite is its creator's business, and the staff's."""
    if invite.created_by_id != actor.pk:
        rules.check_staff(actor)
    lock(invite)
    if invite.deleted_at is not None:
        raise NotFound("not_found", "This invite has been deleted.")
