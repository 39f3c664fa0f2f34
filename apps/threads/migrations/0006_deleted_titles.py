from django.db import migrations


def forget_titles(apps, schema_editor):
    """Events of deleted threads do not tell their titles any more."""
    deleted = apps.get_model("threads", "Thread").objects.exclude(deleted_at=None).values("pk")
    apps.get_model("events", "Event").objects.filter(thread_id__in=deleted).update(title=None)


class Migration(migrations.Migration):
    dependencies = [("threads", "0005_body_html"), ("events", "0003_pings")]

    operations = [migrations.RunPython(forget_titles, migrations.RunPython.noop)]
