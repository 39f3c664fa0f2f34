"""What changes signup invites: made, changed, deleted. `sign_up` accepts them."""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.utils import timezone

from apps.accounts import rules
from apps.accounts.models import Invite, InviteStatus
from apps.accounts.principal import Principal
from apps.core.changes import given, set_changed
from apps.core.errors import NotFound
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site.models import SiteSettings


@transaction.atomic
def create_invite(*, by: Principal, expires_at: dt.datetime, email: str = "") -> Invite:
    """Invite somebody: whoever has the link, or only a person who signs up with `email`.

    Locks the person's row, so that two at once cannot pass the limit together. Errors: 403
    `staff_required` where only staff invites, 403 `account_too_young`, 429
    `signup_invite_limit_reached`, 422.
    """
    by.check_may_change()
    lock(by.user)
    rules.check_may_invite(by, SiteSettings.load())
    rules.check_email(email)
    invite = Invite.objects.create(created_by=by.user, expires_at=expires_at, email=email)
    record(Kind.INVITE_CREATED, actor=by.user, about=invite)
    return invite


@transaction.atomic
def update_invite(
    *,
    by: Principal,
    invite: Invite,
    email: str | None = None,
    expires_at: dt.datetime | None = None,
) -> None:
    """Change whom it is for (empty: whoever has the link) and when it ends; None leaves as is.

    An end in the future makes an expired invite pending again. Locks it. Errors: 403
    `staff_required`, 404 when deleted, 409 `invite_already_accepted`, 422.
    """
    _lock(by, invite)
    if invite.accepted_at is not None:
        raise rules.already_accepted()
    rules.check_email(email or "")
    changed = set_changed(invite, given(email=email, expires_at=expires_at))
    if not changed:
        return
    invite.save()
    record(Kind.INVITE_UPDATED, actor=by.user, about=invite, data={"changed": changed})


@transaction.atomic
def expire_invite(*, by: Principal, invite: Invite) -> None:
    """End an invite now; one that has ended already stays as it is. As `update_invite`."""
    _lock(by, invite)
    if invite.status is not InviteStatus.EXPIRED:
        update_invite(by=by, invite=invite, expires_at=timezone.now())


@transaction.atomic
def delete_invite(*, by: Principal, invite: Invite) -> None:
    """Delete an invite, whatever its state; its row stays. 403, 404. Locks it."""
    _lock(by, invite)
    invite.deleted_at = timezone.now()
    invite.save(update_fields=["deleted_at"])
    record(Kind.INVITE_DELETED, actor=by.user, about=invite)


def _lock(by: Principal, invite: Invite) -> None:
    """Lock an invite for its creator or staff; 401, 403, 404."""
    by.check_may_change_of(invite.created_by_id, "invites")
    lock(invite)
    if invite.deleted_at is not None:
        raise NotFound("not_found", "This invite has been deleted.")
