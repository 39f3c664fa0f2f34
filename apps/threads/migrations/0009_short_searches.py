"""An index for searches of one or two letters in titles, on PostgreSQL: pg_trgm needs three.

It also finds texts that pg_trgm cannot find, such as `c++`. It is created without a transaction, and
writes do not wait. An interrupted migration leaves an invalid index, which the next one replaces.
"""

from django.db import migrations

FUNCTION = """
    CREATE OR REPLACE FUNCTION text_parts(text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT array_agg(substr($1, place, size))
        FROM generate_series(1, length($1)) place, generate_series(1, 2) size
    $$
"""
INDEX = "CREATE INDEX CONCURRENTLY thread_title_parts ON threads_thread USING gin (text_parts(UPPER(title)))"
DROP = "DROP INDEX CONCURRENTLY IF EXISTS thread_title_parts"


def make_index(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for statement in (FUNCTION, DROP, INDEX):
            schema_editor.execute(statement)


def drop_index(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(DROP)
        schema_editor.execute("DROP FUNCTION text_parts(text)")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("threads", "0008_search_in_titles")]
    operations = [migrations.RunPython(make_index, drop_index, elidable=False)]
