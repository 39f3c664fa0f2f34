"""What the worker does about requests with a key: forget those whose time is over, and those that
are more than is kept for one person.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone

from apps.idempotency.models import KEPT, MOST, KeyedRequest
from apps.jobs.worker import OnDone

AT_ONCE = 500
"""Rows that are removed by one statement."""


def forget_old_requests(on_done: OnDone) -> bool:
    """Remove the rows that no longer count, the oldest first, and then those beyond the bound."""
    removed = 0
    while found := _forget_some():
        removed += found
    answered = KeyedRequest.objects.exclude(answer=None).exclude(person="")
    for person in _of_many(answered):
        beyond = [*_beyond(answered.filter(person=person))]
        for begin in range(0, len(beyond), AT_ONCE):
            removed += answered.filter(pk__in=beyond[begin : begin + AT_ONCE]).delete()[0]
    if removed:
        on_done(f"{removed} requests with a key forgotten")
    return False


def _forget_some() -> int:
    """One statement by keys: a row that was taken anew meanwhile is younger, and stays."""
    old = KeyedRequest.objects.filter(created_at__lte=timezone.now() - KEPT)
    some = list(old.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE])
    return old.filter(pk__in=some).delete()[0] if some else 0


def _of_many(answered: QuerySet[KeyedRequest]) -> list[str]:
    """Whose answers are more than is kept. Databases know the length of what they do not read."""
    sums = answered.values("person").annotate(bytes=Sum(Length("answer")))
    return [*sums.filter(bytes__gt=MOST).values_list("person", flat=True)]


def _beyond(answered: QuerySet[KeyedRequest]) -> Iterator[int]:
    """The ids of those answers of one person for which newer ones leave no room."""
    room = MOST
    sizes = answered.order_by("-created_at", "-pk").values_list("pk", Length("answer"))
    for pk, size in sizes.iterator():
        room -= size
        if room < 0:
            yield pk
