from django.db import migrations, models

from apps.core.sqlite3.operations import AddColumn


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0014_sessions'),
    ]

    operations = [
        AddColumn(
            model_name='user',
            name='is_bot',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
