"""Whether a pull has a conflict. The worker asks git of those that are open (apps/pulls/jobs.py)."""

from django.db import migrations, models

FIRST_CHECKS = """
    UPDATE pulls_pull SET conflict_due_at = CURRENT_TIMESTAMP
    WHERE status IN ('open', 'draft') AND head_sha IS NOT NULL AND base_sha IS NOT NULL
"""


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0012_versions'),
    ]

    operations = [
        migrations.AddField(
            model_name='pull',
            name='has_conflict',
            field=models.BooleanField(null=True),
        ),
        migrations.AddField(
            model_name='pull',
            name='conflict_due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='pull',
            index=models.Index(condition=models.Q(('status__in', ['open', 'draft']), ('conflict_due_at__isnull', False)), fields=['conflict_due_at'], name='pull_conflict_due'),
        ),
        # The last: PostgreSQL changes no table in a transaction that has written rows of it.
        migrations.RunSQL(FIRST_CHECKS, migrations.RunSQL.noop, elidable=True),
    ]
