"""Migrations on SQLite check foreign keys only after a statement that may break one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, migrations, models
from django.db.migrations.state import ProjectState

from apps.core.sqlite3.operations import AddColumn
from tests.databases import connected_to

pytestmark = [pytest.mark.once, pytest.mark.django_db]

TABLES = """
CREATE TABLE parent (id integer PRIMARY KEY, name text);
CREATE TABLE child (id integer PRIMARY KEY, parent_id integer REFERENCES parent (id));
CREATE TABLE django_migrations (name text);
INSERT INTO parent VALUES (1, 'a');
INSERT INTO child VALUES (1, 1);
"""
CHECK = "PRAGMA foreign_key_check"


@pytest.fixture(autouse=True)
def family(tmp_path: Path) -> Iterator[Path]:
    """The connection is to a SQLite file with a parent and a child that refers to it."""
    file = tmp_path / "family.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(TABLES)
    with connected_to(file):
        yield file


def execute(statement: str) -> list[str]:
    """Execute a statement as a migration does; returns all statements."""
    statements: list[str] = []

    def note(execute, sql, params, many, context):
        statements.append(sql)
        return execute(sql, params, many, context)

    with (
        connection.execute_wrapper(note),
        connection.schema_editor(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    return statements


def committed(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return [*database.iterdump()]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO child VALUES (2, 9)",
        "REPLACE INTO child VALUES (1, 9)",
        "WITH nine AS (SELECT 9) UPDATE child SET parent_id = (SELECT * FROM nine)",
        "update child set parent_id = 9",
        "UPDATE parent SET id = 9",
        "DELETE FROM parent",
        "DROP TABLE parent",
        'ALTER TABLE "child" ADD COLUMN "other" integer DEFAULT 9 REFERENCES parent (id)',
        'ALTER TABLE "child" ADD COLUMN "other" integer REFERENCES parent (id) DEFAULT 9',
        'ALTER TABLE "child" ADD COLUMN "other" integer default\n9 references\nparent (id)',
    ],
)
def test_a_migration_that_breaks_a_reference_is_refused(statement, family):
    before = committed(family)
    with pytest.raises(IntegrityError):
        execute(statement)
    assert committed(family) == before


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE TABLE "friend" (id integer PRIMARY KEY, parent_id integer REFERENCES parent (id))',
        'CREATE INDEX "name" ON parent (name)',
        'CREATE UNIQUE INDEX "name" ON parent (name)',
        'DROP INDEX IF EXISTS "name"',
        'ALTER TABLE "child" ADD COLUMN "other" integer NULL REFERENCES parent (id)',
        "SELECT * FROM child",
        """INSERT INTO "django_migrations" VALUES ('0001_initial')""",
    ],
)
def test_references_are_not_checked_if_the_statement_cannot_break_one(statement):
    assert CHECK not in execute(statement)


def test_references_are_enforced_after_a_migration():
    for statement in ("SELECT 1", "DELETE FROM child", "DELETE FROM parents"):
        with suppress(OperationalError):
            execute(statement)
        with pytest.raises(IntegrityError), connection.cursor() as cursor:
            cursor.execute("INSERT INTO child VALUES (2, 9)")


def test_statements_after_a_migration_are_not_watched():
    execute("SELECT 1")
    assert connection.execute_wrappers == []


def added(field: models.Field[Any, Any]) -> None:
    """Add this field to the table `parent`, as the column `extra`."""
    before, after = ProjectState(), ProjectState()
    key, options = models.IntegerField(primary_key=True), {"db_table": "parent"}
    creation = migrations.CreateModel("Parent", [("id", key)], options=options)
    operation = AddColumn("parent", "extra", field)
    for state in (before, after):
        creation.state_forwards("family", state)
    operation.state_forwards("family", after)
    with connection.schema_editor() as editor:
        operation.database_forwards("family", editor, before, after)


def test_an_added_column_has_the_check_of_its_field():
    added(models.JSONField(db_default=["50%s"]))
    with connection.cursor() as cursor:
        cursor.execute("SELECT extra FROM parent")
        assert cursor.fetchall() == [('["50%s"]',)]
        with pytest.raises(IntegrityError, match="CHECK"):
            cursor.execute("UPDATE parent SET extra = 'no JSON'")


def test_an_added_column_has_the_index_of_its_field(family):
    added(models.CharField(max_length=9, db_default="", db_index=True))
    assert any('INDEX "parent_extra_' in line for line in committed(family))
