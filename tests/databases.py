"""Databases of tests: tables are created once in a run, and each server begins with a copy.

On SQLite they are files; with `DATABASE_URL`, databases of that PostgreSQL server.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from django.db import connection, connections
from django.db.utils import ConnectionHandler
from django.test import override_settings

Tables = Path | str
"""A SQLite file, or the name of a PostgreSQL database without connections."""


def create_database(tables: Tables | None = None) -> str:
    """The URL of a new PostgreSQL database, empty or with these tables; "" on SQLite."""
    server = os.environ.get("DATABASE_URL", "")
    if not server.startswith("postgres"):
        return ""
    name = f"guildhall_test_{uuid.uuid4().hex[:12]}"
    execute(f"CREATE DATABASE {name} TEMPLATE {tables or 'template1'}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def drop_database(url: str) -> None:
    drop(urlsplit(url).path.removeprefix("/"))


def drop(name: str) -> None:
    execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def execute(statement: str) -> None:
    """Execute a statement outside a transaction, on the server of `DATABASE_URL`."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute(statement.encode())


def make_tables(folder: Path) -> Tables:
    """Create the tables by Django, in this folder or on the server of the test database."""
    options = connection.settings_dict
    name = options["NAME"]
    with data_in(folder / "data"):
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    connection.close()
    made, options["NAME"] = options["NAME"], name
    if connection.vendor == "sqlite":
        return Path(shutil.move(made, folder / "tables.db"))
    tables = f"{made}_tables"
    drop(tables)
    execute(f"ALTER DATABASE {made} RENAME TO {tables}")
    return tables


@contextmanager
def data_in(folder: Path) -> Iterator[None]:
    """In the block this is DATA_DIR, which is created if it is missing."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with override_settings(DATA_DIR=folder, REPOSITORIES_DIR=folder / "repositories"):
        yield


@contextmanager
def connected_to(file: Path, url: str = "") -> Iterator[None]:
    """In the block the thread uses this PostgreSQL database, or without a URL this SQLite file."""
    own = connections["default"]
    options = {"ENGINE": "apps.core.sqlite3", "NAME": str(file)}
    if url:
        options = {**own.settings_dict, "NAME": urlsplit(url).path.removeprefix("/")}
    there = ConnectionHandler({"default": options})["default"]
    connections["default"] = there
    try:
        yield
    finally:
        there.close()
        connections["default"] = own
