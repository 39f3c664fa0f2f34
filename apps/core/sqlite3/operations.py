"""Operations of migrations that do not copy a table on SQLite."""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class AddColumn(migrations.AddField):
    """Add a field with a `db_default`.

    Django copies the table on SQLite, and then checks all foreign keys while nobody can write.
    SQLite itself adds such a column without touching a row.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        # The method of the editor for SQLite copies the table.
        BaseDatabaseSchemaEditor.add_field(schema_editor, model, model._meta.get_field(self.name))
