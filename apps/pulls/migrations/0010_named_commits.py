import re

from django.db import migrations
from django.db.models import Q

COMMIT = re.compile(r"<ref>([0-9a-f]{7,40})</ref>")
"""The mark of what may name a commit, in HTML that is kept."""
WORD = re.compile(r"(?<![\w/#@.:&-])([0-9a-f]{7,40})(?!\w)")
"""The same in a text from before HTML was kept: that is rendered when it is read."""
MOST = 50
"""Names of one text that become links."""


def note_commits(apps, schema_editor):
    """Note what may name commits in the texts that there are; the worker asks git which it has."""
    named = apps.get_model("repos", "NamedCommit").objects
    repos = set()
    for app, model, repo in (
        ("threads", "Thread", "repo"),
        ("threads", "Reply", "thread__repo"),
        ("pulls", "Review", "pull__repo"),
    ):
        texts = apps.get_model(app, model).objects.filter(
            Q(body_html__contains="<ref>") | Q(html_version=0)
        )
        values = texts.values_list(repo, "html_version", "body_html", "body")
        for repo_id, version, html, body in values.iterator():
            found = COMMIT.findall(html) if version else WORD.findall(body)
            names = [*dict.fromkeys(found)][:MOST]
            rows = [named.model(repo_id=repo_id, name=name) for name in names]
            named.bulk_create(rows, ignore_conflicts=True)
            repos.update([repo_id] if names else [])
    searches = apps.get_model("repos", "CommitSearch").objects
    searches.bulk_create([searches.model(repo_id=pk) for pk in repos], ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [
        ("pulls", "0009_body_html"),
        ("threads", "0005_body_html"),
        ("repos", "0009_named_commits"),
    ]

    operations = [migrations.RunPython(note_commits, migrations.RunPython.noop)]
