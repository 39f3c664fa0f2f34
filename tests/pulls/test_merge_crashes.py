"""The process of a merge dies at any point; a later merge, push or settle completes the work.

The crash is an exception, raised again where the merge would clean up, so that the same data is
left as after a kill.
"""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from apps.core.errors import Conflict
from apps.events.models import Event
from apps.git.merge import Strategy
from apps.pulls.actions import merge_pull, merging
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import PushJournal
from apps.repos.pushes import open_journal
from tests.dying import Killed
from tests.principals import access_of
from tests.pulls import paths, push_hook

pytestmark = pytest.mark.slow


def die():
    raise Killed


def live():
    """Do nothing at this call of the hook."""


@pytest.fixture(autouse=True)
def followed(settings):
    """Every push and merge also calls `push_hook`, after the rows of pulls are written."""
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.push_hook"]
    yield
    left = [*push_hook.preparing, *push_hook.applying, *push_hook.failing]
    for calls in (push_hook.preparing, push_hook.applying, push_hook.failing):
        calls.clear()
    assert not left, "a moment was not reached"


def at_next_reads(*acts):
    """Call one of these at each of the next calls of `prepare`.

    A merge calls it when its plan is stored, just before it moves the ref, and in each `settle`.
    """
    push_hook.preparing.extend(reversed(acts))


def merge(pull, actor, strategy=Strategy.MERGE, **options):
    """Call the action with a pull that is read again."""
    again = Pull.objects.select_related("thread__created_by").get(pk=pull.pk)
    again.repo = pull.repo
    by = access_of(actor, pull.repo)
    merge_pull(access=by, pull=again, merge_strategy=strategy, **options)


def die_without_a_plan(pull, actor, strategy):
    """Let a merge die at the first query after it has taken its lease."""
    leased = dead = False

    def watch(execute, sql, *rest):
        nonlocal leased, dead
        if dead:
            return None  # a dead process sends no further queries
        if leased and sql.startswith("SELECT"):
            dead = True
            die()
        leased = leased or sql.startswith('INSERT INTO "pulls_mergeattempt"')
        return execute(sql, *rest)

    with connection.execute_wrapper(watch), pytest.raises(Killed):
        merge(pull, actor, strategy)
    assert MergeAttempt.objects.get(pull=pull).push is None


def die_before_the_ref(pull, actor, strategy=Strategy.MERGE, *, after=()):
    """Let a merge die when its plan is stored. `after`: calls for the earlier calls of the hook."""
    before = pull.repo.git.ref("refs/heads/main")
    at_next_reads(*after, die, die)
    with pytest.raises(Killed):
        merge(pull, actor, strategy)
    assert pull.repo.git.ref("refs/heads/main") == before
    check_left_behind(pull)


def die_after_the_ref(pull, actor, strategy=Strategy.MERGE):
    """Let a merge die before its rows are written; return the new tip of the target."""
    before = pull.repo.git.ref("refs/heads/main")
    at_next_reads(live, die)
    push_hook.applying.append(die)
    with pytest.raises(Killed):
        merge(pull, actor, strategy)
    assert not push_hook.applying
    sha = pull.repo.git.ref("refs/heads/main")
    assert sha != before == pull.repo.branch_sha("main")
    check_left_behind(pull)
    return sha


def check_left_behind(pull):
    """A dead merge leaves its lease with the plan, and its step in the journal."""
    attempt = MergeAttempt.objects.get(pull=pull)
    assert attempt.leased_until > timezone.now()
    step, main = PushJournal.objects.get(), "refs/heads/main"
    assert (step.push, step.full_name, step.new) == (attempt.push, main, attempt.result_sha)
    assert Pull.objects.get(pk=pull.pk).status == "open"


def expire_leases():
    MergeAttempt.objects.update(leased_until=timezone.now())


def check_merged(pull, sha, strategy, by):
    """The pull has been merged once, as planned, and nothing is left to settle."""
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
    sha = die_after_the_ref(pull, bob, strategy)
    with events("branch-pushed", "branch-created", "pull-merged") as recorded:
        clone.push("main:other", by=sam)
    check_merged(pull, sha, strategy, bob)
    assert [event.actor for event in recorded] == [bob, sam, bob]
    assert recorded[0].data["after"] == sha == clone.repo.branch_sha("main")


@pytest.mark.parametrize("strategy", ["merge", "rebase"])
def test_the_next_merge_finishes_one_that_died_after_the_ref(
    api, pull, alice, bob, events, strategy
):
    sha = die_after_the_ref(pull, bob, strategy)
    url = f"{paths.pull(pull)}/merge"
    api(alice).post(url).fails(409, "merge_in_progress")
    expire_leases()
    with events("branch-pushed", "pull-merged"):
        api(alice).post(url).fails(409, "pull_already_merged")
    check_merged(pull, sha, strategy, bob)


@pytest.mark.parametrize("die_early", [die_without_a_plan, die_before_the_ref])
def test_a_merge_that_died_before_the_ref_is_made_anew(
    api, pull, clone, alice, bob, events, die_early
):
    die_early(pull, bob, "squash")
    url = f"{paths.pull(pull)}/merge"
    api(alice).post(url).fails(409, "merge_in_progress")
    expire_leases()
    with events("branch-pushed", "pull-merged"):
        merged = api(alice).post(url).gives()
    check_merged(pull, merged["merge_commit_sha"], "merge", alice)
    assert clone.server("rev-list", "--count", "main") == "3"


def test_what_was_pushed_on_a_dead_merge_keeps_its_people(pull, clone, bob, sam, events):
    sha = die_after_the_ref(pull, bob, "squash")
    clone.git("fetch", "--quiet", str(clone.repo.git.path), "main")
    clone.commit("next", {"gate": "1"}, onto="FETCH_HEAD")
    with events("branch-pushed", "branch-pushed", "pull-merged") as recorded:
        clone.push("next:main", by=sam)
    check_merged(pull, sha, "squash", bob)
    assert [event.actor for event in recorded] == [bob, sam, bob]


def test_a_dead_merge_is_known_without_its_journal_too(pull, clone, bob, sam, events):
    sha = die_after_the_ref(pull, bob, "rebase")
    PushJournal.objects.all().delete()
    clone.git("fetch", "--quiet", str(clone.repo.git.path), "main")
    clone.commit("next", {"gate": "1"}, onto="FETCH_HEAD")
    with events("branch-pushed", "pull-merged") as recorded:
        clone.push("next:main", by=sam)
    check_merged(pull, sha, "rebase", bob)
    assert [event.actor for event in recorded] == [sam, bob]  # sam has pushed the tip


def test_a_pull_that_was_closed_after_its_merge_died_is_merged_all_the_same(
    api, pull, clone, alice, bob
):
    sha = die_after_the_ref(pull, bob, "squash")
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    clone.push("main:other")
    check_merged(pull, sha, "squash", bob)


def test_a_merge_that_lost_its_lease_stores_no_plan(pull, alice, bob, events):
    """It loses the lease while it settles the plan of a dead merge."""

    def lose_it():
        expire_leases()
        die_before_the_ref(pull, alice, after=[live])

    die_before_the_ref(pull, bob)
    expire_leases()
    at_next_reads(lose_it)
    with events(), pytest.raises(Conflict, match="being merged"):
        merge(pull, bob)
    assert MergeAttempt.objects.get().actor == PushJournal.objects.get().actor == alice
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_merge_that_lost_its_lease_moves_no_ref(pull, alice, bob, events):
    """It loses the lease after its plan is stored."""

    def lose_it():
        expire_leases()
        die_before_the_ref(pull, bob, after=[live])

    at_next_reads(lose_it)
    with events(), pytest.raises(Conflict, match="being merged"):
        merge(pull, alice)
    assert MergeAttempt.objects.get().actor == PushJournal.objects.get().actor == bob
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_pull_that_is_closed_meanwhile_is_not_merged(api, pull, alice, bob, events):
    at_next_reads(lambda: api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives())
    with events("pull-closed"), pytest.raises(Conflict, match="is closed"):
        merge(pull, bob)
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_repository_that_is_archived_meanwhile_takes_no_merge(pull, bob, events):
    at_next_reads(lambda: type(pull.repo).objects.update(is_archived=True))
    with events(), pytest.raises(Conflict, match="is archived"):
        merge(pull, bob)
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_head_that_moves_meanwhile_is_not_merged_by_the_old_plan(pull, clone, bob, events):
    clone.commit("feature", {"window": "1"})
    at_next_reads(lambda: clone.push("feature"))
    with events("branch-pushed", "pull-pushed"), pytest.raises(Conflict, match="The head is"):
        merge(pull, bob, expected_head_sha=pull.head_sha)
    assert pull.repo.git.ref("refs/heads/main") == pull.base_sha


def test_a_merge_catches_up_with_a_push_whose_rows_are_not_there_yet(
    api, pull, clone, alice, bob, events
):
    """git has moved `main` for bob, but the rows of his push are not written yet."""
    tip = clone.commit("main", {"gate": "1"})
    moves = [("refs/heads/main", pull.base_sha, tip)]
    open_journal(actor=bob, repo=clone.repo, moves=moves)
    clone.git("push", "--quiet", str(clone.repo.git.path), "main")
    with events("branch-pushed", "branch-pushed", "pull-merged") as recorded:
        merged = api(alice).post(f"{paths.pull(pull)}/merge").gives()
    assert [event.actor for event in recorded] == [bob, alice, alice]
    assert merged["target_sha_before"] == tip
    check_merged(pull, merged["merge_commit_sha"], "merge", alice)


def test_rows_that_fail_after_the_ref_are_written_at_once(api, pull, alice, events):
    push_hook.failing.append(OperationalError("the disk is full"))
    with events("branch-pushed", "pull-merged"):
        api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    check_merged(pull, pull.repo.git.ref("refs/heads/main"), "merge", alice)


def test_a_ref_that_stays_locked_is_no_defect(api, pull, clone, alice, caplog):
    """Another git process holds the lock of `main`, or died holding it."""
    clone.server("config", "core.filesRefLockTimeout", "0")
    held = clone.repo.git.path / "refs/heads/main.lock"
    held.touch()
    api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    assert "Pull 1 of repository" in caplog.text
    assert not MergeAttempt.objects.exists()
    assert not PushJournal.objects.exists()
    held.unlink()
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def overtake(clone, times):
    """Let pushes to the target come first in each next attempt of a merge, and in `settle`."""
    for number in range(2 * times - 1):
        clone.commit("main", {"gate": str(number)})
        push_hook.preparing.insert(0, pusher(clone, clone.git("rev-parse", "main")))


def test_a_merge_that_is_overtaken_again_and_again_goes_on(api, pull, clone, alice):
    overtake(clone, times=4)
    merged = api(alice).post(f"{paths.pull(pull)}/merge").gives()
    assert merged["target_sha_before"] == clone.git("rev-parse", "main")
    check_merged(pull, merged["merge_commit_sha"], "merge", alice)


def test_a_merge_that_is_overtaken_gives_up_when_its_time_is_up_and_keeps_its_place(
    api, pull, clone, alice, monkeypatch
):
    overtake(clone, times=1)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    busy = api(alice).post(f"{paths.pull(pull)}/merge")
    busy.fails(503, "unavailable")
    assert busy.header("Retry-After") == "1"
    stored = MergeAttempt.objects.get()
    assert stored.queued_at is not None
    assert stored.leased_until <= timezone.now()
    assert (stored.push, stored.head_sha, stored.result_sha) == (None, None, None)
    assert not PushJournal.objects.exists()
    assert clone.repo.branch_sha("main") == clone.git("rev-parse", "main")
    monkeypatch.undo()
    api(alice).post(f"{paths.pull(pull)}/merge").gives()


def pusher(clone, sha):
    """Move `main` in git alone, without rows."""
    return lambda: clone.git("push", "--quiet", str(clone.repo.git.path), f"{sha}:refs/heads/main")
