"""A commit with 10,000 statuses: its reads and reports are found by indexes. `bench/statuses.py`
measures them.
"""

from __future__ import annotations

import json

import pytest
from django.db import connection

from apps.statuses.models import CommitChecks, CommitStatus
from apps.statuses.queries import latest_statuses, list_statuses
from apps.statuses.views import MOST_CONTEXTS

SCANS = ("SCAN statuses_commitstatus", "Seq Scan on statuses_commitstatus", "TEMP B-TREE FOR ORDER")
"""Words of plans that read or sort all statuses."""


def fill(repo, by, shas, contexts, each):
    """Each commit gets this many statuses of each context."""
    CommitStatus.objects.bulk_create(
        [
            CommitStatus(repo=repo, sha=sha, context=f"ci/{n}", state="success", created_by=by)
            for sha in shas
            for _ in range(each)
            for n in range(contexts)
        ],
        batch_size=500,
    )
    CommitChecks.objects.bulk_create(
        CommitChecks(repo=repo, sha=sha, state="success") for sha in shas
    )


def plan(rows):
    text = json.dumps(rows.explain())
    assert not [words for words in SCANS if words in text], text
    return text


def test_statuses_of_a_commit_are_found_by_indexes(repo, alice, head):
    fill(repo, alice, [f"{number:040}" for number in range(1000)], 20, 1)
    fill(repo, alice, [head], 20, 100)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    rows = CommitStatus.objects.of_commit(repo, head)
    newest = plan(list_statuses(repo, head)[:100])
    if connection.vendor == "sqlite":  # PostgreSQL may go back along the primary key instead
        assert "status_newest" in newest
    assert "Sort Key" not in newest
    assert "status_of_context" in plan(rows.filter(context="ci/7").order_by("-id")[100:101])
    latest = rows.latest_by("context").values_list("state", flat=True).distinct()
    assert "status_of_context" in plan(latest)
    assert len(latest_statuses(repo, head)) == 20


def test_a_list_of_10_000_statuses_has_pages(api, alice, repo, head, url):
    fill(repo, alice, [head], 100, 100)
    answer = api(alice).get(f"{url}?per_page=100").gives()
    assert len(answer["results"]) == 100 and answer["next"]
    assert CommitStatus.objects.of_commit(repo, head).count() == 10_000
    api(alice).post(url, context="ci/7", state="pending").gives(201)
    assert CommitStatus.objects.of_commit(repo, head).count() == 10_000
    assert api(alice).get(url.removesuffix("es")).gives()["state"] == "pending"


@pytest.mark.parametrize(("more", "is_cut"), [(0, False), (1, True)])
def test_a_combined_status_lists_some_contexts_and_counts_all(
    api, alice, repo, head, url, more, is_cut
):
    fill(repo, alice, [head], MOST_CONTEXTS + more - 1, 1)
    api(alice).post(url, context="zz/last", state="failure").gives(201)
    answer = api(alice).get(url.removesuffix("es")).gives()
    assert (answer["state"], len(answer["contexts"])) == ("failure", MOST_CONTEXTS)
    assert answer["contexts_truncated"] == is_cut
