"""Requests with an `Idempotency-Key`: who is working on each, and the answer that it got.

A row names nobody and nothing: the key, the person, the path and the body are in it as hashes, and
the answer can be read only by who sends the key once more.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import models
from django.utils import timezone

KEPT = dt.timedelta(hours=24)
"""How long the first answer is given again, from when the request first came."""
MOST = 100_000_000
"""Bytes of kept answers of one person; of more the oldest are forgotten before their time."""
LEASE = dt.timedelta(seconds=60)
"""After this time without an answer, the process that worked on it is taken for dead."""


class KeyedRequest(models.Model):
    """A request that was sent with a key, under way until it has an answer."""

    digest = models.CharField(max_length=64, unique=True)
    """Of the key, the person and the path."""
    person = models.CharField(max_length=64, default="")
    """The digest of the person; empty in rows of earlier versions, which are gone in a day."""
    body = models.CharField(max_length=64)
    """The digest of the body."""
    token = models.UUIDField(default=uuid.uuid4)
    """Whoever holds this may answer; it changes when the request is taken over."""
    leased_until = models.DateTimeField()
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    answer = models.BinaryField(null=True)
    """Encrypted (`sealing.py`); null until there is one."""

    def __str__(self) -> str:
        return f"request of {self.created_at}, {'answered' if self.answer else 'under way'}"

    @property
    def is_kept(self) -> bool:
        """Whether it still counts; afterwards the same key is a new one."""
        return timezone.now() < self.created_at + KEPT
