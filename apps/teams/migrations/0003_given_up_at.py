"""When a slug was given up. Of those that were before this, it is taken to be now."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("teams", "0002_former_slugs")]
    operations = [
        migrations.AddField(
            model_name="formerteamslug",
            name="given_up_at",
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
    ]
