"""A version for each head that a pull has. That of older pulls is their present head, from when they
were opened; the worker reads what it contains (apps/pulls/jobs.py).
"""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

FIRST_VERSIONS = """
    INSERT INTO pulls_pullversion (
        pull_id, version, head_sha, base_sha, pushed_by_id, created_at, is_forced, due_at, tries
    )
    SELECT pull.id, 1, pull.head_sha, pull.base_sha, pull.head_pushed_by_id, thread.created_at,
        FALSE, CURRENT_TIMESTAMP, 0
    FROM pulls_pull pull JOIN threads_thread thread ON thread.id = pull.thread_id
    WHERE pull.head_sha IS NOT NULL
"""
NUMBERS = "UPDATE pulls_pull SET last_version = 1 WHERE head_sha IS NOT NULL"


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0011_activity'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='PullVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.BigIntegerField()),
                ('head_sha', models.CharField(max_length=40)),
                ('base_sha', models.CharField(max_length=40, null=True)),
                ('merge_base_sha', models.CharField(max_length=40, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('is_forced', models.BooleanField(null=True)),
                ('commit_count', models.BigIntegerField(null=True)),
                ('additions', models.BigIntegerField(null=True)),
                ('deletions', models.BigIntegerField(null=True)),
                ('changed_files', models.BigIntegerField(null=True)),
                ('due_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            model_name='pull',
            name='last_version',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name='VersionContents',
            fields=[
                ('version', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='contents', serialize=False, to='pulls.pullversion')),
                ('commits', models.BinaryField()),
                ('files', models.BinaryField()),
            ],
            options={
                'verbose_name_plural': 'contents of versions',
            },
        ),
        migrations.AddField(
            model_name='pullversion',
            name='pull',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='pulls.pull'),
        ),
        migrations.AddField(
            model_name='pullversion',
            name='pushed_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='pullversion',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='version_due'),
        ),
        migrations.AddConstraint(
            model_name='pullversion',
            constraint=models.UniqueConstraint(fields=('pull', 'version'), name='version_number_in_pull'),
        ),
        # The last: PostgreSQL changes no table in a transaction that has written rows of it.
        migrations.RunSQL([FIRST_VERSIONS, NUMBERS], migrations.RunSQL.noop, elidable=True),
    ]
