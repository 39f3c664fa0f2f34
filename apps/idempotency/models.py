"""Requests with an `Idempotency-Key`, with their claims and answers.

Key, person, path and body are stored as digests, and the answer is encrypted: reading it takes the
key.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import models
from django.utils import timezone

STORED_FOR = dt.timedelta(hours=24)
"""How long the answer is replayed, counted from the first request."""
BYTES_PER_PERSON = 100_000_000
"""Most bytes of one person's stored answers. Beyond that, the oldest are deleted early."""
LEASE = dt.timedelta(seconds=60)
"""Time after which a process that has not answered counts as dead."""


class KeyedRequest(models.Model):
    """A request that was sent with a key. It is in progress until it has an answer."""

    digest = models.CharField(max_length=64, unique=True)
    """The digest of the key, the person and the path."""
    person = models.CharField(max_length=64, default="")
    """The digest of the person. Empty in rows of older versions, which expire in a day."""
    body = models.CharField(max_length=64)
    """The digest of the body."""
    token = models.UUIDField(default=uuid.uuid4)
    """The token of the claim; it changes when the request is taken over."""
    leased_until = models.DateTimeField()
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    answer = models.BinaryField(null=True)
    """The encrypted answer (`seal_of` in `replays.py`); null until there is one."""

    def __str__(self) -> str:
        return f"request of {self.created_at}, {'answered' if self.answer else 'under way'}"

    @property
    def is_expired(self) -> bool:
        """Whether the answer is no longer replayed. The same key then starts a new request."""
        return timezone.now() >= self.created_at + STORED_FOR
