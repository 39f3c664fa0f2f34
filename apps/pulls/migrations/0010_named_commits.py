import re
from itertools import islice

from django.db import migrations
from django.db.models import Q

COMMIT = re.compile(r"<ref>([0-9a-f]{7,40})</ref>")
"""The mark of what may name a commit, in HTML that is kept."""
WORD = re.compile(r"(?<![\w/#@.:&-])([0-9a-f]{7,40})(?!\w)")
"""The same in a text from before HTML was kept: that is rendered when it is read."""
MOST = 50
"""Names of one text that become links."""


INSERT = "INSERT INTO repos_namedcommit (repo_id, name, sha) VALUES {} ON CONFLICT DO NOTHING"
BATCH_SIZE = 400
"""Names in one statement, which SQLite allows 999 parameters."""


def note_commits(apps, schema_editor):
    """Note what may name commits in the texts that there are; the worker asks git which it has."""
    repos, names = set(), names_of_texts(apps)
    with schema_editor.connection.cursor() as cursor:
        while batch := [*islice(names, BATCH_SIZE)]:
            cursor.execute(INSERT.format(", ".join(["(%s, %s, '')"] * len(batch))), sum(batch, ()))
            repos.update(repo_id for repo_id, _ in batch)
    searches = apps.get_model("repos", "CommitSearch").objects
    searches.bulk_create([searches.model(repo_id=pk) for pk in repos], ignore_conflicts=True)


def names_of_texts(apps):
    """The repository and each name of all texts."""
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
            yield from ((repo_id, name) for name in [*dict.fromkeys(found)][:MOST])


class Migration(migrations.Migration):
    dependencies = [
        ("pulls", "0009_body_html"),
        ("threads", "0005_body_html"),
        ("repos", "0009_named_commits"),
    ]

    operations = [migrations.RunPython(note_commits, migrations.RunPython.noop)]
