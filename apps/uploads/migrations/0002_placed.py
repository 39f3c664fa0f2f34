from django.db import migrations, models


def place(apps, schema_editor):
    """Those that are used go with their last text, as before."""
    apps.get_model("uploads", "Upload").objects.filter(is_used=True).update(is_placed=True)


class Migration(migrations.Migration):
    dependencies = [("uploads", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="upload",
            name="is_placed",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(place, migrations.RunPython.noop),
    ]
