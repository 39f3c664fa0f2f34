from django.db import migrations


def make_rows(apps, schema_editor):
    """A fresh install guards its two pages for strangers, and nothing else."""
    rows = apps.get_model("site", "RateLimit").objects
    for scope in ("login", "signup"):
        rows.get_or_create(scope=scope, defaults={"max_requests": 20, "window_seconds": 60})


class Migration(migrations.Migration):

    dependencies = [("site", "0003_rate_limits")]

    operations = [migrations.RunPython(make_rows, migrations.RunPython.noop)]
