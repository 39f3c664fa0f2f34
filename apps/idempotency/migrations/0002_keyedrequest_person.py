"""Whose answers are kept, as a digest: each person's have a bound."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("idempotency", "0001_initial")]
    operations = [
        migrations.AddField(
            model_name="keyedrequest",
            name="person",
            field=models.CharField(default="", max_length=64),
        ),
    ]
