"""Row locks. One order everywhere: repo → pull or thread → its child → the event lock last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from django.db import connection, transaction
from django.db.models import Model
from django.db.transaction import TransactionManagementError

from apps.core.errors import NotFound
from apps.core.statements import Parameter, Statement

MOMENT = 25
"""Milliseconds in which a short write of somebody else ends."""


def lock(row: Model) -> None:
    """Read the row again `FOR UPDATE` inside the caller's transaction.

    Parents it was reached through stay attached, so that nothing is fetched twice. On SQLite the
    transaction itself is the lock (`BEGIN IMMEDIATE`). 404 when the row has gone meanwhile.
    It is `FOR NO KEY UPDATE`, under which others may write rows that point here. They would wait
    at their commit otherwise, holding the event lock that the holder of this one asks for next.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("A lock ends with its transaction; there is none.")
    fresh = _again(type(row)).first(pk=row.pk)
    if fresh is None:
        raise NotFound("not_found", "This has since been deleted.")
    deferred = row.get_deferred_fields()
    for field in row._meta.concrete_fields:
        value = getattr(fresh, field.attname)
        if field.attname in deferred or getattr(row, field.attname) != value:
            setattr(row, field.attname, value)


@cache
def _again(model: type[Model]) -> Statement:
    """Selects a row by its key `FOR NO KEY UPDATE`."""
    rows = model._base_manager.select_for_update(of=("self",), no_key=True)
    return Statement(lambda: rows.filter(pk=Parameter("pk")))


def hold(name: str) -> None:
    """Hold the lock of this name until the caller's transaction ends, for what has no row to lock.

    On SQLite the transaction itself is the lock. Take it after the locks of rows, and before an
    event is recorded.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("A lock ends with its transaction; there is none.")
    if connection.vendor == "postgresql":
        key = hashlib.blake2b(name.encode(), digest_size=8).digest()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(key, "big", signed=True)]
            )


@contextmanager
def without_waiting() -> Iterator[None]:
    """A transaction that waits for others for `MOMENT` milliseconds at most, for what can be left
    undone: `OperationalError` where they hold a lock for longer.
    """
    if connection.vendor == "sqlite":
        usual = int(connection.settings_dict["OPTIONS"].get("timeout", 5) * 1000)
        before, after = f"PRAGMA busy_timeout = {MOMENT}", f"PRAGMA busy_timeout = {usual}"
        _execute(before)
        try:
            with transaction.atomic():
                yield
        finally:
            _execute(after)
        return
    with transaction.atomic():
        _execute(f"SET LOCAL lock_timeout = {MOMENT}")
        yield
        _execute("SET LOCAL lock_timeout TO DEFAULT")  # inside another transaction it would stay


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def give_back_connection() -> None:
    """Return this thread's database connection before minutes of work without it.

    The next query takes one again. Inside a transaction nothing happens, nor on SQLite, where a
    connection is a file of this thread's own and opening it again only takes time.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
