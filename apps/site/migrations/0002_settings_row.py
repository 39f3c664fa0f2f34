from django.db import migrations


def make_row(apps, schema_editor):
    apps.get_model("site", "SiteSettings").objects.get_or_create(pk=1)


class Migration(migrations.Migration):

    dependencies = [("site", "0001_settings")]

    operations = [migrations.RunPython(make_row, migrations.RunPython.noop)]
