"""Copies of the database: by SQLite's backup API, or by `pg_dump` and `pg_restore`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from apps.core.postgresql.programs import run_program
from apps.core.transactions import snapshot

NAMES = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}
UNOWNED = ("--no-owner", "--no-privileges")
"""The restored tables belong to the role that restores them."""
Fetch = Callable[[str], Any]
"""A function that executes a query and returns its rows."""


@dataclass(frozen=True)
class Contents:
    """Counts of rows by table, the id of the newest event, and the names of the migrations."""

    rows: dict[str, int]
    newest_event: int
    migrations: list[str]


def file_in(folder: Path) -> Path:
    """The copy of the database in the folder of a backup."""
    return folder / NAMES[connection.vendor]


def own_files() -> set[str]:
    """The names of the files of a SQLite database; none on PostgreSQL."""
    if connection.vendor != "sqlite":
        return set()
    name = Path(connection.settings_dict["NAME"]).name
    return {name, *(f"{name}-{end}" for end in ("wal", "shm", "journal"))}


def dump(folder: Path) -> Contents:
    """Copy the database while others use it; return the contents of the copy.

    `DatabaseError`, `sqlite3.Error`, `ProgramError`.
    """
    copy = _dump_sqlite if connection.vendor == "sqlite" else _dump_postgresql
    return copy(file_in(folder))


def load(folder: Path) -> None:
    """Copy a backup into the database, which has to be empty. Errors are those of `dump`."""
    if connection.vendor == "postgresql":
        run_program("pg_restore", "--single-transaction", *UNOWNED, str(file_in(folder)))
        return
    connection.ensure_connection()
    # `immutable`: SQLite writes nothing beside the file, which may be on a read-only disk.
    address = f"{file_in(folder).resolve().as_uri()}?immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as source:
        source.backup(connection.connection)


def row_counts(tables: Iterable[str], fetch: Fetch | None = None) -> dict[str, int]:
    """The number of rows of each table; `fetch` executes queries on another connection."""
    names = {table: connection.ops.quote_name(table) for table in tables}
    count = "SELECT COUNT(*) FROM "
    return {table: (fetch or _fetch)(count + name)[0][0] for table, name in names.items()}


def _dump_sqlite(file: Path) -> Contents:
    connection.ensure_connection()
    with closing(sqlite3.connect(file)) as copy:
        connection.connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, also once somebody has opened it
        return _contents(lambda query: copy.execute(query).fetchall())


@snapshot()
def _dump_postgresql(file: Path) -> Contents:
    name = _fetch("SELECT pg_export_snapshot()")[0][0]
    options = ("--format=custom", *UNOWNED, "--no-comments", f"--snapshot={name}")
    run_program("pg_dump", *options, f"--file={file}")
    return _contents(_fetch)


def _fetch(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def _contents(fetch: Fetch) -> Contents:
    migrations = fetch("SELECT app, name FROM django_migrations")
    return Contents(
        row_counts(connection.introspection.django_table_names(only_existing=True), fetch),
        fetch("SELECT COALESCE(MAX(id), 0) FROM events_event")[0][0],
        sorted(f"{app}.{name}" for app, name in migrations),
    )
