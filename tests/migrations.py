"""Tables as they were before some migrations, for the tests of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"


@contextmanager
def as_of(app: str, name: str) -> Iterator[None]:
    """The tables as this migration of an app left them; those of the newest afterwards."""
    numbers = last_numbers()
    try:
        MigrationExecutor(connection).migrate([(app, name)])
        yield
    finally:
        migrate_to_newest()
        count_on_from(numbers)


def migrate_to_newest() -> None:
    """Of every app: going back in one takes those of others back that build on it."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def last_numbers() -> dict[str, int]:
    """The last id that each table has given; SQLite counts from what is there."""
    if connection.vendor != "postgresql":
        return {}
    with connection.cursor() as cursor:
        cursor.execute(SEQUENCES)
        return {name: last for name, last in cursor.fetchall() if last is not None}


def count_on_from(numbers: dict[str, int]) -> None:
    """Let tables that were made anew give no id once more: data that is prepared for several tests
    has some of them.
    """
    now = last_numbers()
    with connection.cursor() as cursor:
        for name, last in numbers.items():
            cursor.execute("SELECT setval(%s::regclass, %s)", [name, max(last, now.get(name, 0))])
