"""An index for searches in titles, where PostgreSQL has pg_trgm and lets this role install it.

It does since PostgreSQL 13, if the role may create things in the database and the server has the
extension. Elsewhere searches find the same, and read more: docs/deploy.md says how to make the
index later.
"""

from django.db import DatabaseError, migrations, transaction

INDEX = (
    "CREATE INDEX IF NOT EXISTS thread_title ON threads_thread "
    "USING gin (UPPER(title::text) gin_trgm_ops)"
)


def make_index(apps, schema_editor):
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            cursor.execute(INDEX)
    except DatabaseError:
        pass


def drop_index(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX IF EXISTS thread_title")


class Migration(migrations.Migration):
    dependencies = [("threads", "0007_across_repositories")]
    operations = [migrations.RunPython(make_index, drop_index, elidable=False)]
