"""Claims on requests with a key: only one process at a time works on such a request.

A claim is committed before the work begins, with a lease. If its process dies, another one takes
the claim over once the lease has expired. Only the current holder of the claim can store an answer.
A stalled process that lost its claim stores none, and its changes are rolled back.
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

from apps.core.errors import Conflict, Invalid
from apps.idempotency.models import LEASE, KeyedRequest

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """A request that this process works on, or one that is answered.

    `since`: when the request first arrived, if another process worked on it without an answer.
    """

    row: KeyedRequest
    since: dt.datetime | None = None

    @property
    def answer(self) -> bytes | None:
        """The stored answer, encrypted; None if there is none."""
        return None if self.row.answer is None else bytes(self.row.answer)

    def _own(self) -> QuerySet[KeyedRequest]:
        return KeyedRequest.objects.filter(pk=self.row.pk, token=self.row.token, answer=None)

    def hold(self) -> None:
        """Lock the claim until the transaction ends; 409 if another process has taken it over."""
        if not self._own().select_for_update().exists():
            raise in_progress()

    def store(self, sealed: bytes) -> None:
        """Store the encrypted answer; 409 if another process has taken the claim over."""
        if not self._own().update(answer=sealed):
            raise in_progress()

    def release(self) -> None:
        """End the lease, so that the request can be retried at once. It stores no answer."""
        try:
            with transaction.atomic():
                self._own().update(leased_until=timezone.now())
        except DatabaseError:
            logger.info("A claim could not be released and expires in %s", LEASE, exc_info=True)


def claim(digest: str, *, person: str, body: str) -> Claim:
    """Claim the request with this digest, or find its answer. Two statements, three for a takeover.

    The arguments are digests (`replays.py`). Errors: 422 `idempotency_mismatch`, 409
    `idempotency_in_progress`.
    """
    until = timezone.now() + LEASE
    new = KeyedRequest(digest=digest, person=person, body=body, leased_until=until)
    KeyedRequest.objects.bulk_create([new], ignore_conflicts=True)
    row = KeyedRequest.objects.filter(digest=digest).first()
    if row is None:  # just deleted by the worker
        raise in_progress()
    if row.token == new.token:
        return Claim(row)
    if row.is_expired:
        return _take(row, body=body, created_at=new.created_at, answer=None)
    if row.body != body:
        text = "This Idempotency-Key was sent before with another body. Use a new one."
        raise Invalid("idempotency_mismatch", text)
    if row.answer is not None:
        return Claim(row)
    if row.leased_until > timezone.now():
        raise in_progress()
    return Claim(_take(row).row, since=row.created_at)


def _take(row: KeyedRequest, **changes: Any) -> Claim:
    """Take over an unchanged row; 409 if another process was faster."""
    unchanged = KeyedRequest.objects.filter(
        pk=row.pk, token=row.token, answer__isnull=row.answer is None
    )
    changes |= {"token": uuid.uuid4(), "leased_until": timezone.now() + LEASE}
    if not unchanged.update(**changes):
        raise in_progress()
    for name, value in changes.items():
        setattr(row, name, value)
    return Claim(row)


def in_progress() -> Conflict:
    """409 for a request that another process works on, or has taken over."""
    text = "A request with this Idempotency-Key is in progress. Send it again in a moment."
    return Conflict("idempotency_in_progress", text, headers={"Retry-After": "1"})
