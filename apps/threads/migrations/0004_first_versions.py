from django.db import migrations

# Who wrote what has been changed before is not known: not every change was the author's.
COPIES = (
    """
    INSERT INTO threads_threadversion (thread_id, version, title, body, edited_by_id, created_at)
    SELECT id, version, title, body,
        CASE WHEN updated_at = created_at THEN created_by_id END, updated_at
    FROM threads_thread
    """,
    """
    INSERT INTO threads_replyversion
        (reply_id, version, kind, status, body, links, edited_by_id, created_at)
    SELECT id, version, kind, status, body, links,
        CASE WHEN version = 1 THEN created_by_id END, COALESCE(edited_at, created_at)
    FROM threads_reply
    """,
)


class Migration(migrations.Migration):
    """Keep what threads and replies say now as their newest version; older ones are lost."""

    dependencies = [
        ('threads', '0003_versions'),
    ]

    operations = [
        migrations.RunSQL(copy, migrations.RunSQL.noop) for copy in COPIES
    ]
