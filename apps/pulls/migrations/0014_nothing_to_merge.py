"""Whether a pull has nothing to merge. The worker asks git again of those that may have nothing."""

from django.db import migrations, models

CHECK_AGAIN = """
    UPDATE pulls_pull SET has_conflict = NULL, conflict_due_at = CURRENT_TIMESTAMP
    WHERE status IN ('open', 'draft') AND has_conflict = %s AND commit_count = 0
"""


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0013_conflicts'),
    ]

    operations = [
        migrations.AddField(
            model_name='pull',
            name='nothing_to_merge',
            field=models.BooleanField(db_default=False, default=False),
        ),
        # The last: PostgreSQL changes no table in a transaction that has written rows of it.
        migrations.RunSQL([(CHECK_AGAIN, [False])], migrations.RunSQL.noop, elidable=True),
    ]
