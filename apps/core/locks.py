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

SHORT_WAIT = 25
"""Milliseconds in which a short write of another transaction ends."""


def lock(row: Model, *, even_deleted: bool = False) -> None:
    """Lock the row until the caller's transaction ends, and reload it. 404 if it was deleted; with
    `even_deleted`, only if nobody can restore it.

    Related objects of the row stay loaded. On SQLite the transaction itself is the lock (`BEGIN
    IMMEDIATE`). On PostgreSQL the lock is `FOR NO KEY UPDATE`, under which others may write rows
    that refer to this one: with `FOR UPDATE` they would wait at their commit, and hold the event
    lock that the holder of this lock takes next.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("A lock ends with its transaction; there is none.")
    current = _locking_select(type(row)).first(pk=row.pk)
    is_deleted = getattr(current, "deletion_id", None) is not None and not even_deleted
    if current is None or is_deleted:
        raise NotFound("not_found", "This has since been deleted.")
    deferred = row.get_deferred_fields()
    for field in row._meta.concrete_fields:
        value = getattr(current, field.attname)
        if field.attname in deferred or getattr(row, field.attname) != value:
            setattr(row, field.attname, value)


@cache
def _locking_select(model: type[Model]) -> Statement:
    """Selects a row by its key `FOR NO KEY UPDATE`."""
    rows = model._base_manager.select_for_update(of=("self",), no_key=True)
    return Statement(lambda: rows.filter(pk=Parameter("pk")))


def hold(name: str) -> None:
    """Take a lock by name until the caller's transaction ends, if there is no row to lock.

    On SQLite the transaction itself is the lock. Take it after the locks of rows, and before an
    event is recorded.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("A lock ends with its transaction; there is none.")
    if connection.vendor == "postgresql":
        key = hashlib.blake2b(name.encode(), digest_size=8).digest()
        _execute("SELECT pg_advisory_xact_lock(%s)", int.from_bytes(key, "big", signed=True))


@contextmanager
def without_waiting() -> Iterator[None]:
    """A transaction for optional work, which waits at most `SHORT_WAIT` milliseconds for a lock;
    then `OperationalError`.
    """
    if connection.vendor == "sqlite":
        timeout = int(connection.settings_dict["OPTIONS"].get("timeout", 5) * 1000)
        _execute(f"PRAGMA busy_timeout = {SHORT_WAIT}")
        try:
            with transaction.atomic():
                yield
        finally:
            _execute(f"PRAGMA busy_timeout = {timeout}")
        return
    with transaction.atomic():
        _execute(f"SET LOCAL lock_timeout = {SHORT_WAIT}")
        yield
        _execute("SET LOCAL lock_timeout TO DEFAULT")  # an outer transaction would keep it


def _execute(statement: str, *parameters: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)


def give_back_connection() -> None:
    """Return this thread's database connection to the pool before minutes of work without it.

    The next query takes another one. Does nothing inside a transaction, and nothing on SQLite,
    where each thread has a connection of its own and opening another only takes time.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
