"""What changes pings: that somebody has seen them. It records nothing: it is no event."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.core.access import Principal
from apps.core.errors import plain_error
from apps.events.models import Ping


@transaction.atomic
def read_ping(*, by: Principal, ping: Ping) -> None:
    """Mark one's own ping as read; doing it again changes nothing. 404 for somebody else's."""
    by.check_may_change()
    if ping.user_id != by.user.pk:
        raise plain_error(404)
    if ping.read_at is None:
        ping.read_at = timezone.now()
        ping.save(update_fields=["read_at"])


@transaction.atomic
def read_all_pings(*, by: Principal) -> None:
    """Mark all pings that one may see as read."""
    by.check_may_change()
    unread = Ping.objects.all().visible_to(by).filter(read_at=None)
    unread.update(read_at=timezone.now())
