"""An index for searches of one or two letters in titles, on PostgreSQL: pg_trgm needs three.

It also finds texts that pg_trgm cannot find, such as `c++`.
"""

from django.db import migrations

FUNCTION = """
    CREATE FUNCTION text_parts(text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
        SELECT array_agg(substr($1, place, size))
        FROM generate_series(1, length($1)) place, generate_series(1, 2) size
    $$
"""
INDEX = "CREATE INDEX thread_title_parts ON threads_thread USING gin (text_parts(UPPER(title)))"


def make_index(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FUNCTION)
        schema_editor.execute(INDEX)


def drop_index(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX thread_title_parts")
        schema_editor.execute("DROP FUNCTION text_parts(text)")


class Migration(migrations.Migration):
    dependencies = [("threads", "0008_search_in_titles")]
    operations = [migrations.RunPython(make_index, drop_index, elidable=False)]
