"""Rows that are jobs. The worker that does a job holds a lease, which expires.

Taking a lease is a compare-and-swap: of several workers, one gets the row. If that worker dies, its
lease expires, and the row is due again. The last write checks the lease, so that a stalled worker
that lost it changes nothing.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from django.db import connection, models
from django.db.models import F, Q
from django.utils import timezone

LEASE = dt.timedelta(seconds=60)
HEARTBEAT = 15.0
"""Seconds between two extensions of a lease."""
logger = logging.getLogger(__name__)


class Leased(models.Model):
    """A row that is a job. It is due unless a worker holds an unexpired lease."""

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
        """Take the lease and return its token; None if another worker was faster.

        Writes `changes` too, and counts an attempt. The lease is taken only if the number of
        attempts is unchanged since this row was read, that is, no other worker took the lease in
        between.
        """
        token, until = uuid.uuid4(), timezone.now() + LEASE
        lease = {"lease_token": token, "lease_until": until, "attempts": F("attempts") + 1}
        unchanged = self._held(self.lease_token).filter(self.due(), attempts=self.attempts)
        if not unchanged.update(**lease, **changes):
            return None
        self.refresh_from_db()
        return token

    def extend(self, token: uuid.UUID) -> bool:
        """Extend the lease to its full duration from now; return False if it is lost."""
        return bool(self._held(token).update(lease_until=timezone.now() + LEASE))

    def put_off(self, token: uuid.UUID, wait: dt.timedelta) -> None:
        """Release the lease after a failure; the row is due again after `wait`."""
        self._held(token).update(lease_until=timezone.now() + wait)

    def is_held(self, token: uuid.UUID) -> bool:
        """Whether this worker still holds the lease. The row has just been locked."""
        return self.lease_token == token


def heartbeat(row: Leased, token: uuid.UUID) -> AbstractContextManager[None]:
    """Extend the lease from another thread as long as the block runs."""
    return repeated(partial(row.extend, token), "The lease of %s could not be extended", row)


@contextmanager
def repeated(call: Callable[[], object], *failure: Any, at_once: bool = False) -> Iterator[None]:
    """Call this every `HEARTBEAT` seconds in another thread as long as the block runs.

    After an error, which is logged with the words of `failure`, the calls continue.
    """
    done = threading.Event()

    def repeat() -> None:
        pause = 0.0 if at_once else HEARTBEAT
        while not done.wait(pause):
            pause = HEARTBEAT
            try:
                call()
            except Exception:
                logger.exception(*failure)
            finally:
                connection.close()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
