"""Row locks. One order everywhere: repo → pull or thread → its child → the event lock last."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model

from apps.core.errors import NotFound


def lock(row: Model) -> None:
    """Read the row again `FOR UPDATE` inside the caller's transaction.

    Parents it was reached through stay attached, so that nothing is fetched twice. On SQLite the
    transaction itself is the lock (`BEGIN IMMEDIATE`). 404 when the row has gone meanwhile.
    Keys never change, so the lock is the one that lets rows pointing here be written: those are
    checked at the commit, when their writer holds the order of events, which the holder of this
    lock will ask for next.
    """
    manager = type(row)._base_manager
    locked = manager.select_for_update(of=("self",), no_key=True)
    fresh = locked.filter(pk=row.pk).first()
    if fresh is None:
        raise NotFound("not_found", "This has been deleted in the meantime.")
    for field in row._meta.concrete_fields:
        value = getattr(fresh, field.attname)
        if getattr(row, field.attname) != value:
            setattr(row, field.attname, value)


def give_back_connection() -> None:
    """Return this thread's database connection before minutes of work without it.

    The next query takes one again. Inside a transaction nothing happens, nor on SQLite, where a
    connection is a file of this thread's own and opening it again only takes time.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
