"""Telling readers that the log has grown. A wake-up carries no data and may be lost or doubled.

PostgreSQL: `NOTIFY` in the transaction, so it leaves with the commit. SQLite: the listeners of
this process, after the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from django.db import connection, transaction

CHANNEL = "guildhall_events"
RECONNECT_AFTER = 1.0
listeners: list[Callable[[], None]] = []
"""Called after each commit with an event, in the thread that committed."""

logger = logging.getLogger(__name__)


def notify_on_commit() -> None:
    """Arrange the wake-up of the transaction at hand."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
    else:
        transaction.on_commit(_wake)


def _wake() -> None:
    for listener in list(listeners):
        listener()


@asynccontextmanager
async def watching(on_wake: Callable[[], None]) -> AsyncIterator[None]:
    """Inside, `on_wake` is called in this event loop whenever the log may have grown."""
    if connection.vendor == "postgresql":
        task = asyncio.create_task(_listen(on_wake))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    else:
        loop = asyncio.get_running_loop()

        def listener() -> None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(on_wake)

        listeners.append(listener)
        try:
            yield
        finally:
            listeners.remove(listener)


def connection_parameters() -> dict[str, Any]:
    """Django's parameters for psycopg, keepalives and timeouts among them."""
    parameters = connection.get_connection_params()
    parameters.pop("cursor_factory")  # Django's is for blocking connections
    return {**parameters, "autocommit": True, "application_name": "guildhall-stream"}


async def _listen(on_wake: Callable[[], None]) -> None:
    """Follow the channel for ever; after each new connection the log may have grown unseen.

    The connection is its own, outside Django's: nothing else may be executed on it while its
    notifications are awaited. It does not work through PgBouncer in transaction mode.
    """
    import psycopg  # only where PostgreSQL is used

    parameters = connection_parameters()
    while True:
        try:
            channel = await psycopg.AsyncConnection.connect(**parameters)
            try:
                await channel.execute(f"LISTEN {CHANNEL}")
                on_wake()
                async for _ in channel.notifies():
                    on_wake()
            finally:  # not `async with`: a second cancellation would end that before it closes
                await channel.close()
        except psycopg.Error as error:
            logger.warning("Cannot listen for events, looking at the table instead: %s", error)
            await asyncio.sleep(RECONNECT_AFTER)
