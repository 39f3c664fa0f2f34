"""Rules for migrations: the previous version serves while they run and until the last node has been
replaced, and again after a rollback. See docs/upgrade.md.

django-migration-linter reads the SQL of a migration, and therefore no `RunPython`, and needs a
PostgreSQL server (docs/decisions/0025).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from apps.core.sqlite3.operations import AddColumn
from tests.databases import connected_to

pytestmark = pytest.mark.once

V1_0_0 = {
    "accounts": 10,
    "browse": 2,
    "events": 3,
    "idempotency": 2,
    "pulls": 14,
    "repos": 14,
    "site": 4,
    "teams": 3,
    "threads": 8,
    "uploads": 2,
}
"""The numbers of the last migrations that these rules do not concern."""

BREAKS = "the previous version still uses it"
LOCKS = "writes wait until it is done"
RULES: dict[type[Operation], str] = {
    migrations.RemoveField: BREAKS,
    migrations.RenameField: BREAKS,
    migrations.AlterField: "the previous version uses the column as it was, and writes may wait",
    migrations.DeleteModel: BREAKS,
    migrations.RenameModel: BREAKS,
    migrations.AlterModelTable: BREAKS,
    migrations.AlterUniqueTogether: "the previous version does not keep to it, and writes wait",
    migrations.AddConstraint: "the previous version does not keep to it, and writes wait",
    migrations.AddIndex: LOCKS,
    migrations.RemoveIndex: "the previous version reads along it",
    migrations.RunSQL: "any statement may lock or break",
}
"""Operations on a table that an earlier migration has created."""

EMPTY = "partial and empty, of a table with a row for each person, team or repository"
REASONS = {
    "events.0004_activity_counts RemoveIndex event": "of the activity of people and teams only, "
    "which the previous version reads without it, more slowly",
    "events.0004_activity_counts RunPython": "sets a PRAGMA, and reads no rows",
    "accounts.0011_deletions AddIndex user": EMPTY,
    "accounts.0013_token_rotation AddIndex apitoken": EMPTY,
    "accounts.0016_token_warning AddIndex apitoken": "a site has few tokens that expire",
    "repos.0015_deletions AddIndex repo": EMPTY,
    "teams.0004_deletions AddIndex team": EMPTY,
    "pulls.0016_auto_merge AddIndex pull": "partial and empty, of a table with no more rows than "
    "that of versions below",
    "pulls.0015_changes_due AddIndex pullversion": "partial and empty: less than a second for a "
    "million versions (docs/upgrade.md)",
}
"""Migrations that break a rule, and why they may."""


def problems(migration: migrations.Migration) -> Iterator[str]:
    """The rules that a migration breaks, each with the operation."""
    created = set[str]()
    for operation in migration.operations:
        table = getattr(operation, "model_name", getattr(operation, "name", ""))
        if isinstance(operation, migrations.CreateModel):
            created.add(operation.name.lower())
        elif table.lower() not in created and (text := problem(operation, migration.atomic)):
            yield f"{type(operation).__name__} {table}".strip() + f": {text}"


def problem(operation: Operation, is_atomic: bool) -> str:
    if isinstance(operation, migrations.AddField):
        column: Any = operation.field
        if column.null or column.many_to_many:
            return ""
        if not column.has_db_default():
            return "the previous version writes no value: give it a db_default"
        copies = not isinstance(operation, AddColumn)
        return "it copies the table on SQLite: use AddColumn" if copies else ""
    if isinstance(operation, migrations.RunPython):
        return "one transaction for all rows: set atomic = False" if is_atomic else ""
    return RULES.get(type(operation), "")


def test_the_previous_version_can_serve_during_and_after_each_migration():
    broken: dict[str, str] = {}
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        is_ours = migration.__module__.startswith("apps.")
        if is_ours and int(name[:4]) > V1_0_0.get(app, 0):
            broken.update(
                dict(f"{app}.{name} {text}".split(": ", 1) for text in problems(migration))
            )
    unexplained = broken.keys() - REASONS.keys()
    assert not unexplained, "\n".join(f"{name}: {broken[name]}" for name in sorted(unexplained))
    assert REASONS.keys() - broken.keys() == set()


@pytest.mark.slow
@pytest.mark.django_db
def test_on_sqlite_nobody_waits_until_all_foreign_keys_are_checked(tmp_path):
    """They are checked if a table is copied, which a column that is not null does, or rows are
    written. The second is no problem without a transaction around the migration.
    """
    applied, checking = [""], set[str]()

    def note(execute, sql, params, many, context):
        if connection.in_atomic_block and sql.startswith("PRAGMA foreign_key_check"):
            checking.add(applied[-1])
        return execute(sql, params, many, context)

    def begin(action, migration=None, fake=False):
        applied.append(str(migration))

    with connected_to(tmp_path / "tables.db"):
        graph = MigrationExecutor(connection).loader.graph
        ours = [key for key in graph.leaf_nodes() if key[0] in {*V1_0_0, "jobs"}]
        old = [key for key in graph.nodes if V1_0_0.get(key[0]) == int(key[1][:4])]
        MigrationExecutor(connection).migrate(old)
        with connection.execute_wrapper(note):
            MigrationExecutor(connection, begin).migrate(ours)
    assert checking == set()


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("thread", "x", models.BooleanField(default=False)),
        migrations.AddField("thread", "x", models.BooleanField(db_default=False)),
        migrations.RemoveField("thread", "title"),
        migrations.RenameField("thread", "title", "name"),
        migrations.AlterField("thread", "title", models.TextField()),
        migrations.DeleteModel("thread"),
        migrations.RenameModel("thread", "topic"),
        migrations.AlterModelTable("thread", "topics"),
        migrations.AlterUniqueTogether("thread", {("repo", "title")}),
        migrations.AddConstraint(
            "thread", models.UniqueConstraint(fields=["title"], name="thread_title_once")
        ),
        migrations.AddIndex("thread", models.Index(fields=["title"], name="x")),
        migrations.RemoveIndex("thread", "x"),
        migrations.RunSQL("UPDATE threads_thread SET title = ''"),
        migrations.RunPython(migrations.RunPython.noop),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_a_bad_operation_is_found(operation):
    assert [*problems(one_with(operation))]


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("thread", "x", models.IntegerField(null=True)),
        AddColumn("thread", "x", models.IntegerField(db_default=0)),
    ],
    ids=["null", "0"],
)
def test_a_new_column_that_the_previous_version_need_not_know_is_allowed(operation):
    assert [*problems(one_with(operation))] == []


def test_a_table_of_the_same_migration_may_be_changed():
    create = migrations.CreateModel("topic", [("id", models.BigAutoField(primary_key=True))])
    index = migrations.AddIndex("topic", models.Index(fields=["id"], name="x"))
    assert [*problems(one_with(create, index))] == []
    assert len([*problems(one_with(index, create))]) == 1


def one_with(*operations: Operation) -> migrations.Migration:
    kind = type("Migration", (migrations.Migration,), {"operations": operations})
    migration: migrations.Migration = kind("9999_x", "threads")
    return migration
