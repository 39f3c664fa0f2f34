"""Marking pings as read. These changes record no event."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.core.access import Permission, Principal
from apps.core.errors import plain_error
from apps.events.models import Ping


@transaction.atomic
def read_ping(*, principal: Principal, ping: Ping) -> None:
    """Mark the caller's own ping as read; repeating it changes nothing. 404 for pings of others."""
    principal.check_permission(Permission.WRITE)
    if ping.user_id != principal.user.pk:
        raise plain_error(404)
    if ping.read_at is None:
        ping.read_at = timezone.now()
        ping.save(update_fields=["read_at"])


@transaction.atomic
def read_all_pings(*, principal: Principal) -> None:
    """Mark all pings that the caller may see as read."""
    principal.check_permission(Permission.WRITE)
    unread = Ping.objects.all().visible_to(principal).filter(read_at=None)
    unread.update(read_at=timezone.now())
