"""Wake-ups for readers of the log: it has new events, or a person's access has to be checked.

A wake-up carries at most the id of that person. It may be lost, or come twice. PostgreSQL sends it
by `NOTIFY` with the commit; on SQLite it is a datagram to each process after the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from django.db import connection, transaction

from apps.events import wake_sockets

CHANNEL = "guildhall_events"
RECONNECT_AFTER = 1.0
OnWake = Callable[[int | None], None]
"""Receives the id of a person whose access has to be checked, or None for new events."""

logger = logging.getLogger(__name__)


def notify_on_commit(person: int | None = None) -> None:
    """Send a wake-up when the current transaction commits.

    With `person`, the streams of this person are checked. This is for changes without an event,
    such as the end of a session.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            if person is None:
                cursor.execute(f"NOTIFY {CHANNEL}")
            else:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(person)])
    else:
        # `robust`: a process without free file descriptors cannot send. The change is committed.
        transaction.on_commit(lambda: wake_sockets.send(person), robust=True)


@asynccontextmanager
async def watching(on_wake: OnWake) -> AsyncIterator[None]:
    """Call `on_wake` at each wake-up, in this event loop, while the context is open."""
    if connection.vendor == "postgresql":
        task = asyncio.create_task(_listen(on_wake))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    else:
        with wake_sockets.receiving(on_wake):
            yield


def connection_parameters() -> dict[str, Any]:
    """Django's connection parameters for psycopg, which include keepalives and timeouts."""
    parameters = connection.get_connection_params()
    parameters.pop("cursor_factory")  # Django's cursor is for blocking connections
    return {**parameters, "autocommit": True, "application_name": "guildhall-stream"}


async def _listen(on_wake: OnWake) -> None:
    """Listen to the channel, and reconnect after errors. Each new connection is a wake-up, as
    notifications may have been lost before it.

    It has its own connection, because no other statement may run on a connection that waits for
    notifications. PgBouncer in transaction mode does not support this.
    """
    import psycopg  # only where PostgreSQL is used

    parameters = connection_parameters()
    while True:
        try:
            channel = await psycopg.AsyncConnection.connect(**parameters)
            try:
                await channel.execute(f"LISTEN {CHANNEL}")
                on_wake(None)
                async for notice in channel.notifies():
                    on_wake(int(notice.payload) if notice.payload else None)
            finally:  # not `async with`: a second cancellation would interrupt its close
                await channel.close()
        except psycopg.Error as error:
            logger.warning("Cannot listen for events, looking at the table instead: %s", error)
            await asyncio.sleep(RECONNECT_AFTER)
