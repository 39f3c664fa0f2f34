"""A push and a review are activity of a pull, as a reply is: the newest of them counts."""

from django.db import migrations
from django.db.models import F, Max, OuterRef, Subquery
from django.db.models.functions import Coalesce, Greatest


def count_pushes_and_reviews(apps, schema_editor):
    pulls = apps.get_model("pulls", "Pull").objects.filter(thread=OuterRef("pk"))
    reviews = apps.get_model("pulls", "Review").objects.filter(pull__thread=OuterRef("pk"))
    reviewed = reviews.order_by().values("pull").annotate(newest=Max("updated_at")).values("newest")
    own = F("last_activity_at")
    newest = Greatest(own, Subquery(pulls.values("updated_at")), Coalesce(Subquery(reviewed), own))
    threads = apps.get_model("threads", "Thread").objects.filter(pull__isnull=False)
    threads.update(last_activity_at=newest)


class Migration(migrations.Migration):
    dependencies = [("pulls", "0010_named_commits"), ("threads", "0007_across_repositories")]
    operations = [
        migrations.RunPython(count_pushes_and_reviews, migrations.RunPython.noop, elidable=True)
    ]
