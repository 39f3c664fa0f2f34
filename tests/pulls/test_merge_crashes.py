"""A merge that stops half way is followed up, whoever comes next.

A crash is simulated by taking the steps of a merge one by one and leaving the last ones out.
"""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.utils import timezone

from apps.core.errors import Conflict
from apps.events.models import Event
from apps.git.merge import Strategy
from apps.pulls.actions import merging
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import PushJournal
from apps.repos.pushes import open_journal, read_facts
from tests.principals import access_of
from tests.pulls import followers, paths

pytestmark = pytest.mark.slow


class Stopped:
    """A merge by bob that stops after one of its steps."""

    def __init__(self, pull, actor, strategy=Strategy.MERGE):
        self.pull = Pull.objects.select_related("thread__created_by").get(pk=pull.pk)
        self.pull.repo = pull.repo
        self.merge = merging.Merge(access_of(actor, pull.repo), self.pull, Strategy(strategy), None)
        self.attempt = merging._take_lease(self.merge)

    def plan(self):
        self.planned = merging._plan(self.merge)
        self.push = merging._store_plan(self.merge, self.attempt, self.planned)
        return self

    def move_the_ref(self):
        move = self.planned.move
        assert move.repo.git.update_ref(move.full_name, move.new, move.old)
        return move.new

    def finish(self):
        facts = read_facts(self.pull.repo, [self.planned.move])
        return merging._move_target(self.merge, self.attempt, self.planned, self.push, facts)


def expire_leases():
    MergeAttempt.objects.update(leased_until=timezone.now())


def check_merged(pull, sha, strategy, by):
    """Merged once, as it was meant, and nothing is left to follow up."""
    pull = Pull.objects.select_related("thread").get(pk=pull.pk)
    assert (pull.status, pull.thread.status) == ("merged", "resolved")
    assert (pull.merge_commit_sha, pull.merge_strategy, pull.merged_by) == (sha, strategy, by)
    assert Event.objects.filter(kind="pull-merged").count() == 1
    assert not MergeAttempt.objects.exists()
    assert not PushJournal.objects.exists()


@pytest.mark.parametrize("strategy", Strategy)
def test_the_next_push_finishes_a_merge_that_died_after_the_ref(
    pull, clone, bob, sam, events, strategy
):
    sha = Stopped(pull, bob, strategy).plan().move_the_ref()
    with events("branch-pushed", "branch-created", "pull-merged") as found:
        clone.push("main:other", by=sam)
    check_merged(pull, sha, strategy, bob)
    assert [event.actor for event in found] == [bob, sam, bob]
    assert found[0].data["after"] == sha == clone.repo.branch_sha("main")


@pytest.mark.parametrize("strategy", ["merge", "rebase"])
def test_the_next_merge_finishes_one_that_died_after_the_ref(
    api, pull, alice, bob, events, strategy
):
    sha = Stopped(pull, bob, strategy).plan().move_the_ref()
    url = f"{paths.pull(pull)}/merge"
    api(alice).post(url).fails(409, "merge_in_progress")
    expire_leases()
    with events("branch-pushed", "pull-merged"):
        api(alice).post(url).fails(409, "pull_already_merged")
    check_merged(pull, sha, strategy, bob)


def test_a_merge_that_died_before_the_ref_is_made_anew(api, pull, clone, alice, bob, events):
    Stopped(pull, bob, "squash").plan()
    url = f"{paths.pull(pull)}/merge"
    api(alice).post(url).fails(409, "merge_in_progress")
    expire_leases()
    with events("branch-pushed", "pull-merged"):
        merged = api(alice).post(url).gives()
    check_merged(pull, merged["merge_commit_sha"], "merge", alice)
    assert clone.server("rev-list", "--count", "main") == "3"


def test_what_was_pushed_on_a_dead_merge_keeps_its_people(pull, clone, bob, sam, events):
    sha = Stopped(pull, bob, "squash").plan().move_the_ref()
    clone.git("fetch", "--quiet", str(clone.repo.git.path), "main")
    clone.commit("next", {"gate": "1"}, onto="FETCH_HEAD")
    with events("branch-pushed", "branch-pushed", "pull-merged") as found:
        clone.push("next:main", by=sam)
    check_merged(pull, sha, "squash", bob)
    assert [event.actor for event in found] == [bob, sam, bob]


def test_a_dead_merge_is_known_without_its_journal_too(pull, clone, bob, sam, events):
    sha = Stopped(pull, bob, "rebase").plan().move_the_ref()
    PushJournal.objects.all().delete()
    clone.git("fetch", "--quiet", str(clone.repo.git.path), "main")
    clone.commit("next", {"gate": "1"}, onto="FETCH_HEAD")
    with events("branch-pushed", "pull-merged") as found:
        clone.push("next:main", by=sam)
    check_merged(pull, sha, "rebase", bob)
    assert [event.actor for event in found] == [sam, bob]  # sam wanted it where it is now


def test_a_pull_that_was_closed_after_its_merge_died_is_merged_all_the_same(
    api, pull, clone, alice, bob
):
    sha = Stopped(pull, bob, "squash").plan().move_the_ref()
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    clone.push("main:other")
    check_merged(pull, sha, "squash", bob)


def test_a_merge_that_lost_its_lease_goes_no_further(api, pull, alice, bob, events):
    slow = Stopped(pull, bob)
    expire_leases()
    other = Stopped(pull, alice)
    with pytest.raises(Conflict, match="being merged"):
        slow.plan()
    late = other.plan()
    expire_leases()
    Stopped(pull, bob)
    with events(), pytest.raises(Conflict, match="being merged"):
        late.finish()
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_pull_that_is_closed_meanwhile_is_not_merged(api, pull, alice, bob, events):
    stopped = Stopped(pull, bob).plan()
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    with events(), pytest.raises(Conflict, match="is closed"):
        stopped.finish()
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_repository_that_is_archived_meanwhile_takes_no_merge(pull, bob, events):
    stopped = Stopped(pull, bob).plan()
    type(pull.repo).objects.update(is_archived=True)
    with events(), pytest.raises(Conflict, match="is archived"):
        stopped.finish()
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_head_that_moves_meanwhile_is_not_merged_by_the_old_plan(pull, clone, bob, events):
    stopped = Stopped(pull, bob).plan()
    clone.commit("feature", {"window": "1"})
    clone.push("feature")
    with events():
        assert not stopped.finish()


def test_a_merge_catches_up_with_a_push_whose_rows_are_not_there_yet(
    api, pull, clone, alice, bob, events
):
    """git has moved `main` for bob, but his push has not written its rows yet."""
    tip = clone.commit("main", {"gate": "1"})
    moves = [("refs/heads/main", pull.base_sha, tip)]
    open_journal(actor=bob, repo=clone.repo, moves=moves)
    clone.git("push", "--quiet", str(clone.repo.git.path), "main")
    with events("branch-pushed", "branch-pushed", "pull-merged") as found:
        merged = api(alice).post(f"{paths.pull(pull)}/merge").gives()
    assert [event.actor for event in found] == [bob, alice, alice]
    assert merged["target_sha_before"] == tip
    check_merged(pull, merged["merge_commit_sha"], "merge", alice)


def test_rows_that_fail_after_the_ref_are_written_at_once(api, pull, alice, settings, events):
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.followers"]
    followers.failing.append(OperationalError("the disk is full"))
    with events("branch-pushed", "pull-merged"):
        api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    check_merged(pull, pull.repo.git.ref("refs/heads/main"), "merge", alice)


def test_a_ref_that_stays_locked_is_no_defect(api, pull, clone, alice, caplog):
    """git itself holds `main`, or died holding it."""
    clone.server("config", "core.filesRefLockTimeout", "0")
    held = clone.repo.git.path / "refs/heads/main.lock"
    held.touch()
    api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    assert "merging pull 1" in caplog.text
    assert not MergeAttempt.objects.exists()
    assert not PushJournal.objects.exists()
    held.unlink()
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def test_a_merge_that_is_overtaken_again_and_again_gives_up(api, pull, clone, alice, settings):
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.followers"]
    # One before each of three tries, and one before each `settle` between them.
    for number in range(5):
        clone.commit("main", {"gate": str(number)})
        followers.reading.insert(0, pusher(clone, clone.git("rev-parse", "main")))
    busy = api(alice).post(f"{paths.pull(pull)}/merge")
    busy.fails(503, "unavailable")
    assert busy.header("Retry-After") == "1"
    assert not MergeAttempt.objects.exists()
    assert clone.repo.branch_sha("main") == clone.git("rev-parse", "main")
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def pusher(clone, sha):
    """Pushes to `main` by git alone, without rows."""
    return lambda: clone.git("push", "--quiet", str(clone.repo.git.path), f"{sha}:refs/heads/main")
