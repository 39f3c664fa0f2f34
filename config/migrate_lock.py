"""A lock for `manage.py migrate`: of two at once, each would apply the same migrations."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

from django.conf import settings

LOCK = int.from_bytes(b"ghmigrat")
"""PostgreSQL's advisory lock."""
PAUSE = 0.2
"""Seconds between two attempts to take the lock."""


@contextmanager
def one_at_a_time(connection: Any, say: Callable[[str], object]) -> Iterator[None]:
    """In the block this process has the lock, which ends with the process or its connection."""
    on_postgresql = connection.vendor == "postgresql"
    with _advisory_lock(connection) if on_postgresql else _folder_lock() as is_taken:
        if not is_taken():
            say("Another process migrates the database. Waiting until it has finished …")
            while not is_taken():
                sleep(PAUSE)
        yield


@contextmanager
def _advisory_lock(connection: Any) -> Iterator[Callable[[], bool]]:
    def query(function: str) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [LOCK])
            return bool(cursor.fetchone()[0])

    try:
        yield lambda: query("pg_try_advisory_lock")
    finally:
        query("pg_advisory_unlock")


@contextmanager
def _folder_lock() -> Iterator[Callable[[], bool]]:
    """A lock on the data folder: SQLite's database is on one machine."""
    folder = os.open(settings.DATA_DIR, os.O_RDONLY)

    def is_taken() -> bool:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield is_taken
    finally:
        os.close(folder)
