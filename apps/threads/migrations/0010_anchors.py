"""Anchors of replies: comments on lines of pulls (docs/pulls.md)."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('threads', '0009_short_searches'),
    ]

    operations = [
        migrations.CreateModel(
            name='Anchor',
            fields=[
                ('reply', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='anchor', serialize=False, to='threads.reply')),
                ('number', models.BigIntegerField()),
                ('commit_sha', models.CharField(max_length=40)),
                ('path', models.BinaryField()),
                ('side', models.CharField(default='new', max_length=3)),
                ('start_line', models.PositiveIntegerField()),
                ('line', models.PositiveIntegerField()),
                ('blob_sha', models.CharField(max_length=40, null=True)),
                ('snippet', models.JSONField(default=list)),
                ('review_uuid', models.UUIDField(null=True)),
                ('current_commit_sha', models.CharField(max_length=40, null=True)),
                ('current_path', models.BinaryField(null=True)),
                ('current_start_line', models.PositiveIntegerField(null=True)),
                ('current_line', models.PositiveIntegerField(null=True)),
                ('outdated_reason', models.CharField(max_length=12, null=True)),
                ('due_at', models.DateTimeField(null=True)),
                ('thread', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='anchors', to='threads.thread')),
            ],
            options={
                'indexes': [models.Index(fields=['thread', 'path', 'line', 'number'], name='anchor_list'), models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='anchor_due')],
            },
        ),
    ]
