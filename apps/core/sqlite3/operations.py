"""Operations of migrations that do not copy a table on SQLite."""

from __future__ import annotations

from typing import Any

from django.db import migrations


class AddColumn(migrations.AddField):
    """Add a field with a `db_default`.

    Django copies the table on SQLite, and then checks all foreign keys while nobody can write.
    SQLite itself adds such a column without touching a row.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        if connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        field = model._meta.get_field(self.name)
        definition, parameters = schema_editor.column_sql(model, field)
        values = tuple(schema_editor.quote_value(value) for value in parameters)
        quote = connection.ops.quote_name
        schema_editor.execute(
            f"ALTER TABLE {quote(model._meta.db_table)} ADD COLUMN {quote(field.column)} "
            f"{definition % values}"
        )
