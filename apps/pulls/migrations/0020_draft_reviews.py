"""Draft reviews of pulls and their comments (docs/pulls.md)."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0019_review_requests'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='DraftReview',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('body_html', models.TextField(default='', editable=False)),
                ('html_version', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('body', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='draft_reviews', to=settings.AUTH_USER_MODEL)),
                ('pull', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='draft_reviews', to='pulls.pull')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('pull', 'created_by'), name='draft_review_of_person')],
            },
        ),
        migrations.CreateModel(
            name='DraftComment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('body_html', models.TextField(default='', editable=False)),
                ('html_version', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('kind', models.CharField(max_length=30)),
                ('body', models.TextField()),
                ('parent_number', models.BigIntegerField(null=True)),
                ('commit_sha', models.CharField(max_length=40, null=True)),
                ('path', models.BinaryField(null=True)),
                ('side', models.CharField(max_length=3, null=True)),
                ('start_line', models.PositiveIntegerField(null=True)),
                ('line', models.PositiveIntegerField(null=True)),
                ('blob_sha', models.CharField(max_length=40, null=True)),
                ('snippet', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('draft', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='pulls.draftreview')),
            ],
        ),
        migrations.AddIndex(
            model_name='draftcomment',
            index=models.Index(fields=['draft', 'id'], name='draft_comments'),
        ),
    ]
