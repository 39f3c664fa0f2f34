"""Reviews say whether their author had pushed the commit.

Of the older ones it is known where their commit is still the head. The others may be by who pushed
it: they approve nothing until they are said again.
"""

from django.db import migrations, models
from django.db.models import F, OuterRef, Q, Subquery


def ask_who_pushed_the_heads(apps, schema_editor):
    Pull, Review = apps.get_model("pulls", "Pull"), apps.get_model("pulls", "Review")
    pulls = Pull.objects.filter(pk=OuterRef("pull"))
    pusher = Subquery(pulls.filter(head_sha=OuterRef("commit_sha")).values("head_pushed_by")[:1])
    known = Review.objects.annotate(pusher=pusher).filter(pusher__isnull=False)
    others = known.exclude(pusher=F("created_by"))
    counting = Q(pk__in=others.values("pk")) | Q(commit_sha=None)
    Review.objects.filter(counting).update(by_pusher=False)


class Migration(migrations.Migration):
    dependencies = [("pulls", "0006_source_moved")]
    operations = [
        migrations.AddField(
            model_name="review",
            name="by_pusher",
            field=models.BooleanField(default=True),
        ),
        migrations.RunPython(ask_who_pushed_the_heads, migrations.RunPython.noop, elidable=True),
    ]
