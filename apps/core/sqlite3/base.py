"""Django's backend for SQLite, with migrations that let others write.

Django checks the foreign keys of all rows before a migration commits. Nobody can write meanwhile,
ten seconds for a million threads, although most migrations only add tables, columns and indexes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Self

from django.db.backends.sqlite3 import base, schema

HARMLESS = re.compile(
    r"SELECT |PRAGMA |SAVEPOINT |RELEASE |CREATE (?:TABLE|INDEX|UNIQUE INDEX) |DROP INDEX "
    r'|INSERT INTO "django_migrations" '
    r'|ALTER TABLE "\w+" ADD COLUMN (?!(?i:(?=.*\bDEFAULT\b).*\bREFERENCES\b))',
    re.DOTALL,
)
"""Beginnings of statements that leave every foreign key as valid as it was. A new column with a
default may refer to a row that does not exist.
"""


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Checks the foreign keys only after statements that may break one."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.may_break = False
        self.watching = self.connection.execute_wrapper(self.watch)
        self.watching.__enter__()
        return self

    def watch(self, execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        self.may_break = self.may_break or not HARMLESS.match(sql)
        return execute(sql, *arguments)

    def __exit__(self, *exception: Any) -> None:
        self.watching.__exit__(*exception)
        if self.may_break:
            super().__exit__(*exception)
        else:
            super(schema.DatabaseSchemaEditor, self).__exit__(*exception)
            self.connection.enable_constraint_checking()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to SQLite."""

    SchemaEditorClass = SchemaEditor
