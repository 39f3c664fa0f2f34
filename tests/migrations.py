"""Tables before some migrations, for the tests of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"


@contextmanager
def as_of(app: str, name: str) -> Iterator[None]:
    """The tables after this migration of an app; afterwards those of the newest."""
    numbers = last_numbers()
    try:
        MigrationExecutor(connection).migrate([(app, name)])
        yield
    finally:
        migrate_to_newest()
        count_on_from(numbers)


def migrate_to_newest() -> None:
    """For all apps: going back in one also takes dependent migrations of others back."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def last_numbers() -> dict[str, int]:
    """The last id of each table; SQLite counts from existing rows."""
    if connection.vendor != "postgresql":
        return {}
    with connection.cursor() as cursor:
        cursor.execute(SEQUENCES)
        return {name: last for name, last in cursor.fetchall() if last is not None}


def count_on_from(numbers: dict[str, int]) -> None:
    """Let recreated tables use no id again: data that is prepared for several tests has some of
    them.
    """
    now = last_numbers()
    with connection.cursor() as cursor:
        for name, last in numbers.items():
            cursor.execute("SELECT setval(%s::regclass, %s)", [name, max(last, now.get(name, 0))])
