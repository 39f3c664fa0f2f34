"""Display names and e-mail addresses in lower case, each address for one account.

Where several accounts have one address, the oldest active one keeps it; the others are left
without, and the log names them, so that somebody can be asked.
"""

import logging

from django.db import migrations, models
from django.db.models import F

logger = logging.getLogger(__name__)


def fill(apps, schema_editor):
    User = apps.get_model("accounts", "User")
    holders = {}
    for user in User.objects.order_by(F("is_active").desc(), "id"):
        user.display_name_key = user.display_name.lower()
        key = user.email.lower()
        if key in holders:
            logger.warning("%s had the e-mail address of %s, and has none now", user.username, holders[key])
            user.email = key = ""
        elif key:
            holders[key] = user.username
        user.email_key = key or None
        user.save(update_fields=["display_name_key", "email", "email_key"])


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="display_name_key",
            field=models.CharField(blank=True, default="", editable=False, max_length=200),
        ),
        migrations.AddField(
            model_name="user",
            name="email_key",
            field=models.CharField(editable=False, max_length=508, null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=True),
    ]
