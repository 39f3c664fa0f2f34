"""Requests with an Idempotency-Key."""

import uuid

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="KeyedRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("body", models.CharField(max_length=64)),
                ("token", models.UUIDField(default=uuid.uuid4)),
                ("leased_until", models.DateTimeField()),
                (
                    "created_at",
                    models.DateTimeField(db_index=True, default=django.utils.timezone.now),
                ),
                ("answer", models.BinaryField(null=True)),
            ],
        ),
    ]
