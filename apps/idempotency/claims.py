"""Who works on a request with a key: one process at a time, and once it is answered nobody.

The claim is committed before the work begins, and holds a lease: one whose process has died is
taken over when that has run out. The answer is stored by who holds the claim at that moment, so
that a process which was thought dead stores nothing, and what it has done is rolled back with it.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.idempotency import rules
from apps.idempotency.models import LEASE, KeyedRequest

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """A request that this process works on, or one that has its answer.

    `since`: when it first came, where somebody has worked on it before and left no answer.
    """

    row: KeyedRequest
    since: dt.datetime | None = None

    @property
    def answer(self) -> bytes | None:
        """What is stored as the answer, sealed."""
        return None if self.row.answer is None else bytes(self.row.answer)

    def _own(self) -> QuerySet[KeyedRequest]:
        return KeyedRequest.objects.filter(pk=self.row.pk, token=self.row.token, answer=None)

    def hold(self) -> None:
        """Keep others from taking it over until the transaction ends; 409 when one has."""
        if not self._own().select_for_update().exists():
            raise rules.in_progress()

    def keep(self, sealed: bytes) -> None:
        """Store the answer; 409 when another has taken it over."""
        if not self._own().update(answer=sealed):
            raise rules.in_progress()

    def release(self) -> None:
        """Let it be tried again at once: there is no answer that could be kept."""
        try:
            with transaction.atomic():
                self._own().update(leased_until=timezone.now())
        except DatabaseError:
            logger.info("A request with a key is free again in %s", LEASE, exc_info=True)


def claim(digest: str, *, person: str, body: str) -> Claim:
    """Take the request of this digest, or find its answer. Two statements, three to take it over.
    All three are digests (`sealing.py`).

    Errors: 422 `idempotency_mismatch`, 409 `idempotency_in_progress`.
    """
    until = timezone.now() + LEASE
    new = KeyedRequest(digest=digest, person=person, body=body, leased_until=until)
    KeyedRequest.objects.bulk_create([new], ignore_conflicts=True)
    row = KeyedRequest.objects.filter(digest=digest).first()
    if row is None:  # it was just forgotten
        raise rules.in_progress()
    if row.token == new.token:
        return Claim(row)
    if not row.is_kept:
        return _take(row, body=body, created_at=new.created_at, answer=None)
    if row.body != body:
        raise rules.mismatch()
    if row.answer is not None:
        return Claim(row)
    if row.leased_until > timezone.now():
        raise rules.in_progress()
    since = row.created_at
    return Claim(_take(row).row, since)


def _take(row: KeyedRequest, **changes: Any) -> Claim:
    """Take over a row as it was read; 409 when another was quicker."""
    unchanged = KeyedRequest.objects.filter(
        pk=row.pk, token=row.token, answer__isnull=row.answer is None
    )
    changes |= {"token": uuid.uuid4(), "leased_until": timezone.now() + LEASE}
    if not unchanged.update(**changes):
        raise rules.in_progress()
    for name, value in changes.items():
        setattr(row, name, value)
    return Claim(row)
