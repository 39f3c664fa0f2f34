"""Merges lose no acknowledged push if the disk shows an older value of a ref."""

from __future__ import annotations

import pytest

from apps.events.models import Event
from apps.repos.models import PushJournal
from tests.pulls import paths

MAIN = "refs/heads/main"


@pytest.fixture
def disk_is_behind(clone, pull):
    """The last push of main was acknowledged, but the disk shows the old value; both values."""
    before = clone.head("main")
    clone.push_commit("main", {"gate": "1"})
    last = clone.head("main")
    clone.server("update-ref", MAIN, before)
    return before, last


@pytest.mark.parametrize("strategy", ["merge", "squash", "rebase"])
def test_a_merge_on_a_disk_that_lies_takes_no_commit_from_the_target(
    api, pull, clone, disk_is_behind, alice, strategy
):
    before, last = disk_is_behind
    events, url = Event.objects.count(), f"{paths.pull(pull)}/merge"
    api(alice).post(url, merge_strategy=strategy).fails(503, "unavailable")
    assert clone.repo.git.ref(MAIN) == before
    assert clone.repo.branch_sha("main") == last
    assert (Event.objects.count(), PushJournal.objects.count()) == (events, 0)
    clone.server("update-ref", MAIN, last)
    api(alice).post(url, merge_strategy=strategy).gives()
    assert clone.repo.git.is_ancestor(last, clone.repo.branch_sha("main"))
