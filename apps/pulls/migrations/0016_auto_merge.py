"""Auto-merges of pulls (docs/pulls.md)."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0015_changes_due'),
        ('repos', '0016_required_statuses'),
        ('threads', '0009_short_searches'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='pull',
            name='auto_merge_by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='pull',
            name='auto_merge_due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='pull',
            name='auto_merge_head_sha',
            field=models.CharField(max_length=40, null=True),
        ),
        migrations.AddField(
            model_name='pull',
            name='auto_merge_set_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='pull',
            name='auto_merge_strategy',
            field=models.CharField(max_length=12, null=True),
        ),
        migrations.AddIndex(
            model_name='pull',
            index=models.Index(condition=models.Q(('auto_merge_due_at__isnull', False)), fields=['auto_merge_due_at', 'id'], name='pull_auto_merge_due'),
        ),
    ]
