"""Comments on lines that protections require to be resolved (docs/protections.md)."""

from django.db import migrations, models

from apps.core.sqlite3.operations import AddColumn


class Migration(migrations.Migration):

    dependencies = [
        ('repos', '0016_required_statuses'),
    ]

    operations = [
        AddColumn(
            model_name='protection',
            name='resolved_required',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
