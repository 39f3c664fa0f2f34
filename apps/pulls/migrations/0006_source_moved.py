from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pulls", "0005_results_not_patches")]
    operations = [
        migrations.AddField(
            model_name="pull",
            name="source_moved",
            field=models.BooleanField(default=False),
        ),
    ]
