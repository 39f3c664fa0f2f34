"""A row that is a job: the worker that does it holds a lease, which runs out.

Taking a lease is a compare-and-swap, so of several workers one gets the row; a worker that died
lets its lease run out, and the row is due again. The last write names the lease, so that a worker
which was thought dead changes nothing.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models
from django.db.models import F, Q
from django.utils import timezone

LEASE = dt.timedelta(seconds=60)
HEARTBEAT = 15.0
"""Seconds between two extensions of a lease by whoever holds it."""
logger = logging.getLogger(__name__)


class Leased(models.Model):
    """A row that is also a job. It is due while nobody holds a lease of it that still runs."""

    attempts = models.PositiveSmallIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @staticmethod
    def due() -> Q:
        return Q(lease_until=None) | Q(lease_until__lt=timezone.now())

    def _held(self, token: uuid.UUID | None) -> models.QuerySet[Any]:
        return type(self)._base_manager.filter(pk=self.pk, lease_token=token)

    def take(self, **changes: Any) -> uuid.UUID | None:
        """Take the lease as this row was read; None when somebody else was quicker.

        `changes` are written with it. It counts as one more attempt, and the number of attempts
        tells whether another has taken the lease since, also one who has given it back.
        """
        token, until = uuid.uuid4(), timezone.now() + LEASE
        lease = {"lease_token": token, "lease_until": until, "attempts": F("attempts") + 1}
        unchanged = self._held(self.lease_token).filter(self.due(), attempts=self.attempts)
        if not unchanged.update(**lease, **changes):
            return None
        self.refresh_from_db()
        return token

    def extend(self, token: uuid.UUID) -> bool:
        """Keep the lease for its full time from now; False when it is lost."""
        return bool(self._held(token).update(lease_until=timezone.now() + LEASE))

    def put_off(self, token: uuid.UUID, wait: dt.timedelta) -> None:
        """Let go after a failure; the row is due again after `wait`."""
        self._held(token).update(lease_until=timezone.now() + wait)

    def is_held(self, token: uuid.UUID) -> bool:
        """Whether this row, just locked, is still this worker's."""
        return self.lease_token == token


@contextmanager
def heartbeat(row: Leased, token: uuid.UUID) -> Iterator[None]:
    """Extend the lease, from another thread, while the work lasts, which may be minutes."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT):
            try:
                row.extend(token)
            except Exception:
                logger.exception("The lease of %s could not be extended", row)
            finally:
                connection.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
