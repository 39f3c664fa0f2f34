"""Query plans of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import CaptureQueriesContext


@contextmanager
def planned(part: str) -> Iterator[list[str]]:
    """After the block: the steps of the only SELECT in it that contains this text."""
    steps: list[str] = []
    with CaptureQueriesContext(connection) as asked:
        yield steps
    [select] = [one["sql"] for one in asked.captured_queries if part in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {select}")
        steps += [str(row[-1]) for row in cursor.fetchall()]
