"""Django's backend for PostgreSQL, with an end to waiting for a server that is away.

A request that waits for a connection occupies a thread. While the database is away, such requests
would occupy all threads in turn; one at a time may ask for a connection instead.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from django.db import OperationalError
from django.db.backends.postgresql import base
from psycopg import Connection, Error
from psycopg_pool import ConnectionPool

from apps.core import metrics

PAUSE = 1.0
"""Seconds after a failure before the next attempt."""
RECENT = 1.0
"""Seconds after its last use in which a connection is trusted without a query."""


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


last_uses: WeakKeyDictionary[Connection[Any], float] = WeakKeyDictionary()


def is_working(connection: Connection[Any]) -> bool:
    """Whether the server answers on a connection that a request is about to use.

    It is asked only after a pause, or if it has sent something unasked, such as the end of the
    connection: to ask takes as long as to read a row.
    """
    now = monotonic()
    recent = now - last_uses.get(connection, 0.0) < RECENT
    last_uses[connection] = now
    if recent and not _has_input(connection.fileno()):
        return True
    try:
        ConnectionPool.check_connection(connection)
    except Error:
        return False
    return True


def _has_input(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        with outage.one_at_a_time():
            failures = self._failures()
            try:
                with metrics.connection_seconds.timed():
                    return self._get_working_connection(conn_params)
            except self.Database.OperationalError:
                if not self._has_full_pool() or self._failures() > failures:
                    outage.begin()
                raise

    def _get_working_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection of the pool; those that a restart of the server has closed are replaced."""
        connection = super().get_new_connection(conn_params)
        while self.pool and not is_working(connection):
            connection.close()
            self.pool.putconn(connection)
            connection = super().get_new_connection(conn_params)
        return connection

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
