"""The process of a push to a pull's branch dies at each statement in turn. The head in git then
becomes exactly one version, with its ref and contents.
"""

from __future__ import annotations

from itertools import count

import pytest

from apps.git.repo import version_ref
from apps.pulls import jobs
from apps.pulls.models import Pull, PullVersion, VersionContents
from apps.repos.pushes import reconcile
from tests.dying import dying_at

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def work():
    """Let the worker complete all pending versions."""
    PullVersion.objects.exclude(due_at=None).update(due_at="2020-01-01T00:00:00Z")
    while jobs.complete_next_version():
        pass


def test_wherever_its_process_dies_a_push_is_one_version(pull, clone):
    git, heads = clone.repo.git, [pull.head_sha]
    for number in count(1):
        head = clone.commit("feature", {"arch": f"{number}\n"})
        with dying_at(number) as death:
            clone.push("feature")
        reconcile(repo=clone.repo)
        work()
        heads += [head] if git.ref("refs/heads/feature") == head else []
        rows = PullVersion.objects.filter(pull=pull).order_by("version")
        assert [row.head_sha for row in rows] == heads, f"it died at statement {number}"
        assert [git.ref(version_ref(pull.number, row.version)) for row in rows] == heads
        assert all(row.is_known and row.due_at is None for row in rows)
        assert VersionContents.objects.count() == len(heads)
        assert Pull.objects.get().last_version == len(heads)
        if not death.came:
            break
    assert number > 20
