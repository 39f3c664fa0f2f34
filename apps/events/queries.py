"""What the API and the pages show of pings."""

from __future__ import annotations

from apps.core.access import Principal
from apps.events.models import Ping, PingQuerySet


def list_pings(principal: Principal, *, unread: bool = False) -> PingQuerySet:
    """The person's pings about what they may read now, newest first; `unread`: only those."""
    found = Ping.objects.all().visible_to(principal).order_by("-event")
    return found.filter(read_at=None) if unread else found
