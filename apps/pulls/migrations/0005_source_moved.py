from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pulls", "0004_sources_of_old_pulls")]
    operations = [
        migrations.AddField(
            model_name="pull",
            name="source_moved",
            field=models.BooleanField(default=False),
        ),
    ]
