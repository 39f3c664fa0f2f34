"""Telling readers that the log has grown. A wake-up carries no data and may be lost or doubled.

PostgreSQL: `NOTIFY` in the transaction, so it leaves with the commit. SQLite: the listeners of
this process, after the commit (engine.md §4).
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection, transaction

CHANNEL = "guildhall_events"
listeners: list[Callable[[], None]] = []
"""Called after each commit with an event, in the thread that committed."""


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
