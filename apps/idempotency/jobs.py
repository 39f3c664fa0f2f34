"""The job of requests with a key: delete expired ones, and the oldest answers of people who have
stored too much.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.utils import timezone

from apps.idempotency.models import BYTES_PER_PERSON, STORED_FOR, KeyedRequest
from apps.jobs.worker import OnDone

BATCH = 500
"""Most rows that one statement deletes."""


def forget_old_requests(on_done: OnDone) -> bool:
    """Delete expired rows, oldest first, and then answers beyond a person's `BYTES_PER_PERSON`."""
    removed = 0
    while count := _delete_expired():
        removed += count
    answered = KeyedRequest.objects.exclude(answer=None).exclude(person="")
    sums = answered.values("person").annotate(bytes=Sum(Length("answer")))
    people = sums.filter(bytes__gt=BYTES_PER_PERSON).values_list("person", flat=True)
    for person in [*people]:
        beyond = [*_beyond_limit(answered.filter(person=person))]
        for begin in range(0, len(beyond), BATCH):
            removed += answered.filter(pk__in=beyond[begin : begin + BATCH]).delete()[0]
    if removed:
        on_done(f"{removed} requests with a key deleted")
    return False


def _delete_expired() -> int:
    """Delete some expired rows. A row that was claimed again meanwhile is newer and stays."""
    expired = KeyedRequest.objects.filter(created_at__lte=timezone.now() - STORED_FOR)
    pks = list(expired.order_by("created_at").values_list("pk", flat=True)[:BATCH])
    return expired.filter(pk__in=pks).delete()[0] if pks else 0


def _beyond_limit(answered: QuerySet[KeyedRequest]) -> Iterator[int]:
    """The ids of one person's oldest answers, beyond `BYTES_PER_PERSON` bytes."""
    room = BYTES_PER_PERSON
    sizes = answered.order_by("-created_at", "-pk").values_list("pk", Length("answer"))
    for pk, size in sizes.iterator():
        room -= size
        if room < 0:
            yield pk
