"""The message of an auto-merge, and whether it deletes the source branch (docs/pulls.md)."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0017_seen_files'),
    ]

    operations = [
        migrations.AddField(
            model_name='pull',
            name='auto_merge_deletes_source',
            field=models.BooleanField(null=True),
        ),
        migrations.AddField(
            model_name='pull',
            name='auto_merge_message',
            field=models.TextField(null=True),
        ),
    ]
