"""Django's backend for PostgreSQL, with an end to waiting for a server that is away.

A request that waits for a connection occupies a thread. While the database is away, such requests
would occupy all threads in turn; one at a time may ask for a connection instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

from django.db import OperationalError
from django.db.backends.postgresql import base

PAUSE = 1.0
"""Seconds after a failure before the next attempt."""


class Outage:
    """Whether the last attempt of this process to connect to the database has failed."""

    def __init__(self) -> None:
        self.asking = Lock()
        self.paused_until: float | None = None
        """None while the server answers."""

    def begin(self) -> None:
        self.paused_until = monotonic() + PAUSE

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """A context for one attempt to connect; its success ends the outage. `OperationalError` at
        once during the pause, and while another thread tries.
        """
        paused_until = self.paused_until
        if paused_until is None:
            yield
            return
        if monotonic() < paused_until or not self.asking.acquire(blocking=False):
            raise OperationalError("The database server is away.")
        try:
            yield
            self.paused_until = None
        finally:
            self.asking.release()


outage = Outage()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        with outage.one_at_a_time():
            failures = self._failures()
            try:
                return super().get_new_connection(conn_params)
            except self.Database.OperationalError:
                if not self._has_full_pool() or self._failures() > failures:
                    outage.begin()
                raise

    def _has_full_pool(self) -> bool:
        """Whether the pool has all connections that there may be. Either others use them, or, if
        attempts fail meanwhile, the pool still counts connections that have been lost.
        """
        if self.pool is None:
            return False
        stats = self.pool.get_stats()
        return bool(stats["pool_size"] >= stats["pool_max"])

    def _failures(self) -> int:
        """The number of attempts of the pool to connect that have failed so far."""
        return 0 if self.pool is None else self.pool.get_stats().get("connections_errors", 0)
