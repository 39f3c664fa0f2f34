"""Pulls that were opened before forks existed come from their own repository.

Apart from the new column: PostgreSQL alters no table of which rows have just been written.
"""

from django.db import migrations
from django.db.models import F


def name_sources(apps, schema_editor):
    apps.get_model("pulls", "Pull").objects.filter(source_repo=None).update(source_repo=F("repo"))


class Migration(migrations.Migration):
    dependencies = [("pulls", "0003_source_repo")]
    operations = [migrations.RunPython(name_sources, migrations.RunPython.noop, elidable=True)]
