"""Telling readers that the log has grown, or that a person's access has to be checked again. A
wake-up carries at most the id of that person, and may be lost or doubled.

PostgreSQL: `NOTIFY` in the transaction, so it leaves with the commit. SQLite: the listeners of
this process, after the commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from django.db import connection, transaction

CHANNEL = "guildhall_events"
RECONNECT_AFTER = 1.0
OnWake = Callable[[int | None], None]
"""Takes the id of a person whose streams have to be checked, or None for a log that has grown."""
listeners: list[OnWake] = []
"""Called after each commit that notifies, in the thread that committed."""

logger = logging.getLogger(__name__)


def notify_on_commit(person: int | None = None) -> None:
    """Arrange the wake-up of the transaction at hand.

    With `person` the streams of this person are checked: for changes without an event, such as the
    end of a session.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            if person is None:
                cursor.execute(f"NOTIFY {CHANNEL}")
            else:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(person)])
    else:
        transaction.on_commit(partial(_wake, person))


def _wake(person: int | None) -> None:
    for listener in list(listeners):
        listener(person)


@asynccontextmanager
async def watching(on_wake: OnWake) -> AsyncIterator[None]:
    """Inside, `on_wake` is called in this event loop at each wake-up."""
    if connection.vendor == "postgresql":
        task = asyncio.create_task(_listen(on_wake))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    else:
        loop = asyncio.get_running_loop()

        def listener(person: int | None) -> None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(on_wake, person)

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


async def _listen(on_wake: OnWake) -> None:
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
                on_wake(None)
                async for notice in channel.notifies():
                    on_wake(int(notice.payload) if notice.payload else None)
            finally:  # not `async with`: a second cancellation would end that before it closes
                await channel.close()
        except psycopg.Error as error:
            logger.warning("Cannot listen for events, looking at the table instead: %s", error)
            await asyncio.sleep(RECONNECT_AFTER)
