"""Tables as they were before some migrations, for the tests of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def as_of(app: str, name: str) -> Iterator[None]:
    """The tables as this migration of an app left them; those of the newest afterwards."""
    try:
        MigrationExecutor(connection).migrate([(app, name)])
        yield
    finally:
        migrate_to_newest()


def migrate_to_newest() -> None:
    """Of every app: going back in one takes those of others back that build on it."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
