"""What the worker does about requests with a key: forget those whose time is over."""

from __future__ import annotations

from django.utils import timezone

from apps.idempotency.models import KEPT, KeyedRequest
from apps.jobs.worker import OnDone

AT_ONCE = 500
"""Rows that are removed by one statement."""


def forget_old_requests(on_done: OnDone) -> bool:
    """Remove the rows that no longer count, the oldest first."""
    removed = 0
    while found := _forget_some():
        removed += found
    if removed:
        on_done(f"{removed} requests with a key forgotten")
    return False


def _forget_some() -> int:
    """One statement by keys: a row that was taken anew meanwhile is younger, and stays."""
    old = KeyedRequest.objects.filter(created_at__lte=timezone.now() - KEPT)
    some = list(old.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE])
    return old.filter(pk__in=some).delete()[0] if some else 0
