"""Counts the activity of earlier events, some thousand events in one transaction.

Writes do not wait meanwhile. If it is interrupted, it begins anew: only newer code, which does not
run yet, writes counts.
"""

from django.db import migrations

DATES = {"postgresql": "DATE(created_at AT TIME ZONE 'UTC')", "sqlite": "DATE(created_at)"}
BATCH_SIZE = 20_000
COUNT = """
    INSERT INTO events_activitycount AS stored (actor_id, date, repo_id, kind, team_id, count)
    SELECT actor_id, {} AS day, repo_id, kind, MAX(team_id), COUNT(*) FROM events_event
    WHERE id > %s AND id <= %s AND repo_id IS NOT NULL AND kind IN ('pull-created', 'pull-merged', 'review-created',
        'thread-created', 'reply-created', 'branch-created', 'branch-pushed')
    GROUP BY actor_id, day, repo_id, kind
    ON CONFLICT (actor_id, date, repo_id, kind) DO UPDATE SET count = stored.count + excluded.count
"""


def count_events(apps, schema_editor):
    connection, last = schema_editor.connection, 0
    with connection.cursor() as cursor:
        delete_counts(cursor, connection.vendor)
        while (newest := newest_event(cursor)) > last:
            first, last = last, min(last + BATCH_SIZE, newest)
            cursor.execute(COUNT.format(DATES[connection.vendor]), [first, last])


def delete_counts(cursor, vendor):
    """Delete those of an interrupted migration. SQLite does not overwrite them with zeros, which
    would take seconds in one transaction; they have only ids, kinds and dates.
    """
    if vendor == "sqlite":
        cursor.execute("PRAGMA secure_delete = FAST")
    cursor.execute("DELETE FROM events_activitycount")
    if vendor == "sqlite":
        cursor.execute("PRAGMA secure_delete = ON")


def newest_event(cursor):
    cursor.execute("SELECT MAX(id) FROM events_event")
    return cursor.fetchone()[0] or 0


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("events", "0004_activity_counts")]
    operations = [migrations.RunPython(count_events, migrations.RunPython.noop)]
