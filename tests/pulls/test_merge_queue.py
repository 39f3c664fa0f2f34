"""Merges into one branch wait for each other, in the order in which they entered the queue."""

from __future__ import annotations

import datetime as dt
from threading import Event, Thread
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from apps.core.locks import hold
from apps.git.merge import build
from apps.pulls.actions import merging
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import PushJournal
from tests.dying import Killed
from tests.principals import access_of
from tests.pulls import paths
from tests.races import Aside
from tests.server import PATIENCE

PULLS, CLIENTS = 24, 8


def begin_merge(pull, by, seconds=60, *, is_built=True):
    """The row of a merge in progress, with its lease and its position in the queue."""
    now = timezone.now()
    return MergeAttempt.objects.create(
        pull=pull,
        actor=by,
        strategy="merge",
        leased_until=now + dt.timedelta(seconds=seconds),
        queued_at=now if is_built else None,
    )


def test_a_merge_whose_turn_does_not_come_in_time_is_refused(
    api, pull, second, alice, monkeypatch, events
):
    begin_merge(pull, alice)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    before = pull.repo.git.refs(pulls=True)
    with events():
        busy = api(alice).post(f"{paths.pull(second)}/merge")
    busy.fails(503, "unavailable")
    assert busy.header("Retry-After") == "1"
    assert pull.repo.git.refs(pulls=True) == before
    check_place_is_kept(second)


def test_a_merge_with_an_earlier_place_waits_for_one_that_has_stored_its_plan(
    api, pull, second, alice, monkeypatch
):
    """Otherwise one of the two is overtaken, and has to be built again."""
    attempt = begin_merge(pull, alice)
    planned = MergeAttempt.objects.filter(pk=attempt.pk)
    planned.update(queued_at=timezone.now() + dt.timedelta(minutes=1), push=uuid4())
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    api(alice).post(f"{paths.pull(second)}/merge").fails(503, "unavailable")
    planned.update(push=None)
    api(alice).post(f"{paths.pull(second)}/merge").gives()


def check_place_is_kept(pull):
    """The row keeps its position, but delays no other merge, and is no dead merge to pushes."""
    kept = MergeAttempt.objects.get(pull=pull)
    assert kept.queued_at is not None
    assert kept.leased_until <= timezone.now()
    assert (kept.push, kept.head_sha, kept.result_sha) == (None, None, None)


def refuse_for_its_turn(api, pull, by, monkeypatch):
    """Let a merge be refused because another merge is ahead."""
    with monkeypatch.context() as patched:
        patched.setattr(merging, "MERGE_SECONDS", 0)
        api(by).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    check_place_is_kept(pull)


def test_a_merge_refused_for_its_turn_goes_before_one_that_came_later_when_it_repeats(
    api, make, pull, second, clone, alice, monkeypatch
):
    ahead = begin_merge(pull, alice)
    refuse_for_its_turn(api, second, alice, monkeypatch)
    ahead.delete()
    clone.push_commit("third", {"roof": "flat\n"}, onto="main")
    begin_merge(make.pull(clone.repo, by=alice, source="third"), alice)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert not MergeAttempt.objects.filter(pull=second).exists()


@pytest.mark.parametrize("change", ["actor", "strategy", "time"])
def test_a_place_is_kept_for_a_minute_for_the_same_person_and_the_same_strategy(
    api, make, pull, second, clone, alice, bob, monkeypatch, change
):
    ahead = begin_merge(pull, alice)
    refuse_for_its_turn(api, second, bob, monkeypatch)
    ahead.delete()
    clone.push_commit("third", {"roof": "flat\n"}, onto="main")
    begin_merge(make.pull(clone.repo, by=alice, source="third"), alice)
    if change == "time":
        before = timezone.now() - dt.timedelta(seconds=61)
        MergeAttempt.objects.filter(pull=second).update(leased_until=before)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    wanted = {"merge_strategy": "squash"} if change == "strategy" else {}
    by = alice if change == "actor" else bob
    api(by).post(f"{paths.pull(second)}/merge", **wanted).fails(503, "unavailable")
    assert MergeAttempt.objects.get(pull=second).actor == by


def test_a_merge_that_is_built_again_holds_up_nobody_by_the_place_it_has_kept(
    api, pull, second, alice, monkeypatch
):
    ahead = begin_merge(pull, alice)
    refuse_for_its_turn(api, second, alice, monkeypatch)
    places = []

    def look(*args, **options):
        places.append(MergeAttempt.objects.get(pull=second).queued_at)
        return build(*args, **options)

    ahead.delete()
    monkeypatch.setattr(merging, "build", look)
    api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert places == [None]


def test_a_pull_that_is_closed_keeps_no_place(api, pull, second, alice, monkeypatch):
    begin_merge(pull, alice)
    refuse_for_its_turn(api, second, alice, monkeypatch)
    api(alice).put(f"{paths.pull(second)}/status", status="closed").gives()
    assert not MergeAttempt.objects.filter(pull=second).exists()


def test_a_pull_that_is_merged_by_a_push_keeps_no_place(
    api, pull, second, clone, alice, monkeypatch
):
    begin_merge(pull, alice)
    refuse_for_its_turn(api, second, alice, monkeypatch)
    clone.push("topic:main")
    assert Pull.objects.get(pk=second.pk).status == "merged"
    assert not MergeAttempt.objects.filter(pull=second).exists()


def test_a_pull_that_is_closed_while_its_merge_waits_keeps_no_place(
    api, pull, second, alice, monkeypatch
):
    begin_merge(pull, alice)
    seconds = [0.0]

    def instead_of_sleeping(_):
        api(alice).put(f"{paths.pull(second)}/status", status="closed").gives()
        seconds[0] = merging.MERGE_SECONDS + 1

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    monkeypatch.setattr(merging, "monotonic", lambda: seconds[0])
    api(alice).post(f"{paths.pull(second)}/merge").fails(503, "unavailable")
    assert not MergeAttempt.objects.filter(pull=second).exists()


def test_the_next_merge_refused_removes_places_that_were_kept_for_a_minute(
    api, make, pull, second, clone, alice, monkeypatch
):
    begin_merge(pull, alice)
    clone.push_commit("third", {"roof": "flat\n"}, onto="main")
    third = make.pull(clone.repo, by=alice, source="third")
    begin_merge(third, alice, seconds=-61)
    refuse_for_its_turn(api, second, alice, monkeypatch)
    assert set(MergeAttempt.objects.values_list("pull", flat=True)) == {pull.pk, second.pk}


def test_a_merge_refused_for_its_turn_is_told_to_wait_for_those_ahead(
    api, make, pull, second, clone, alice, monkeypatch
):
    """The estimate assumes that each merge ahead takes as long to build as this one."""
    begin_merge(pull, alice)
    clone.push_commit("third", {"roof": "flat\n"}, onto="main")
    begin_merge(make.pull(clone.repo, by=alice, source="third"), alice)
    seconds = [0.0]

    def build_for_long(*args, **options):
        seconds[0] += 3.5
        return build(*args, **options)

    def instead_of_sleeping(_):
        seconds[0] = merging.MERGE_SECONDS + 1

    monkeypatch.setattr(merging, "build", build_for_long)
    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    monkeypatch.setattr(merging, "monotonic", lambda: seconds[0])
    busy = api(alice).post(f"{paths.pull(second)}/merge")
    busy.fails(503, "unavailable")
    assert busy.header("Retry-After") == "7"


def test_a_merge_goes_on_when_the_one_ahead_has_ended(api, pull, second, clone, alice, monkeypatch):
    """The merge commit contains the pushes that moved the target meanwhile."""
    ahead, looks = begin_merge(pull, alice), []

    def instead_of_sleeping(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            clone.push_commit("main", {"wall": "high\n"})
            ahead.delete()

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    merged = api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert len(looks) == 3
    assert merged["target_sha_before"] == clone.git("rev-parse", "main")


def test_a_dead_merge_holds_up_nobody_once_its_lease_has_expired(api, pull, second, alice):
    begin_merge(pull, alice, seconds=0)
    api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert merging.MERGE_SECONDS < merging.LEASE_SECONDS <= 30


def test_a_merge_that_is_still_built_holds_up_nobody(api, pull, second, alice, monkeypatch):
    begin_merge(pull, alice, is_built=False)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    api(alice).post(f"{paths.pull(second)}/merge").gives()


def test_a_merge_that_waits_keeps_its_lease(api, pull, second, alice, monkeypatch):
    """Otherwise a merge that has waited long would count as dead."""
    ahead, left = begin_merge(pull, alice), []

    def instead_of_sleeping(seconds):
        now, waiting = timezone.now(), MergeAttempt.objects.filter(pull=second)
        left.append(waiting.get().leased_until - now)
        waiting.update(leased_until=now)
        if len(left) == 3:
            ahead.delete()

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    monkeypatch.setattr(merging, "TURN_SECONDS", 0)
    api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert len(left) == 3


def test_a_merge_that_waits_has_stored_no_plan(api, pull, second, alice, monkeypatch):
    """git may already have carried out a stored plan, so a merge stores one only on its turn."""
    ahead, seen = begin_merge(pull, alice), []

    def instead_of_sleeping(seconds):
        waiting = MergeAttempt.objects.get(pull=second)
        seen.append((waiting.queued_at > ahead.queued_at, waiting.push, waiting.result_sha))
        assert not PushJournal.objects.exists()
        ahead.delete()

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    api(alice).post(f"{paths.pull(second)}/merge").gives()
    assert seen == [(True, None, None)]


def test_a_merge_that_dies_while_it_waits_leaves_a_place_that_expires(
    api, pull, second, alice, monkeypatch
):
    ahead, dead = begin_merge(pull, alice), []

    def die(seconds):
        dead.append(seconds)
        raise Killed

    def watch(execute, *asked):
        return None if dead else execute(*asked)  # a dead process sends no further queries

    monkeypatch.setattr(merging, "sleep", die)
    with connection.execute_wrapper(watch), pytest.raises(Killed):
        merging.merge_pull(access=access_of(alice, second.repo), pull=second)
    left = MergeAttempt.objects.get(pull=second)
    assert left.queued_at is not None
    assert left.push is None
    assert not PushJournal.objects.exists()
    assert left.leased_until <= timezone.now() + dt.timedelta(seconds=merging.TURN_SECONDS)
    assert merging.TURN_SECONDS <= 10

    ahead.delete()
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    url = f"{paths.pull(second)}/merge"
    api(alice).post(url).fails(409, "merge_in_progress")
    api(alice).post(f"{paths.pull(pull)}/merge").fails(503, "unavailable")
    MergeAttempt.objects.update(leased_until=timezone.now())
    api(alice).post(url).gives()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_of_two_that_take_a_place_at_once_the_later_one_waits(pull, second, alice, monkeypatch):
    """Each merge that looks at the queue sees all merges that have looked before."""
    looked, go_on = Event(), Event()

    def instead_of_sleeping(seconds):
        looked.set()
        assert go_on.wait(PATIENCE)

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    by = access_of(alice, second.repo)
    later = Aside(lambda: merging.merge_pull(access=by, pull=second))
    with transaction.atomic():
        hold(pull.merge_queue)
        later.begin()
        assert later.is_alive(), "it has not waited for the one that is looking"
        ahead = begin_merge(pull, alice)
    assert looked.wait(PATIENCE)
    assert not PushJournal.objects.exists()
    ahead.delete()
    go_on.set()
    later.join(PATIENCE)
    assert Pull.objects.get(pk=second.pk).status == "merged"


def test_a_merge_is_built_anew_in_its_turn_only_if_there_is_time(
    api, pull, second, clone, alice, monkeypatch
):
    """The other merges wait meanwhile, but at most 20 seconds."""
    ahead, seconds = begin_merge(pull, alice), [0.0]

    def instead_of_sleeping(_):
        clone.push_commit("main", {"wall": "high\n"})
        ahead.delete()
        seconds[0] = merging.MERGE_SECONDS + 1

    monkeypatch.setattr(merging, "sleep", instead_of_sleeping)
    monkeypatch.setattr(merging, "monotonic", lambda: seconds[0])
    api(alice).post(f"{paths.pull(second)}/merge").fails(503, "unavailable")
    check_place_is_kept(second)


def test_merges_into_other_branches_wait_for_nothing(
    api, make, pull, second, clone, alice, monkeypatch
):
    clone.push("main:release")
    other = make.pull(clone.repo, by=alice, source="topic", target="release")
    begin_merge(pull, alice)
    monkeypatch.setattr(merging, "MERGE_SECONDS", 0)
    api(alice).post(f"{paths.pull(other)}/merge").gives()


def test_a_pull_whose_merge_waits_is_being_merged(api, pull, second, alice):
    begin_merge(pull, alice)
    begin_merge(second, alice)
    api(alice).post(f"{paths.pull(second)}/merge").fails(409, "merge_in_progress")


@pytest.mark.slow
def test_of_many_merges_at_once_all_are_made_one_after_the_other(server, path, git):
    work, alice = git("alice"), server.api("alice")
    begin = work.commit("begin")
    specs = [f"{begin}:refs/heads/main"]
    for number in range(PULLS):
        work("checkout", "--quiet", "--detach", begin)
        specs.append(f"{work.commit(f'file-{number}')}:refs/heads/topic-{number}")
    work("push", "--quiet", work.url, *specs)
    owner, _, slug = path.rpartition("/")
    home = f"/{owner}/repos/{slug}"
    urls, answers = [], []
    for number in range(PULLS):
        body = {"title": "x", "body": "", "source_branch": f"topic-{number}"}
        made = alice.post(f"{home}/pulls", **body, target_branch="main").gives(201)
        urls.append(f"{home}/pulls/{made['number']}/merge")

    def merge(some):
        for url in some:
            # On a slow machine its turn may come late: it keeps its position for a repeat.
            while (answer := alice.post(url)).status == 503:
                pass
            answers.append(answer)

    clients = [Thread(target=merge, args=[urls[n::CLIENTS]]) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(PULLS * PATIENCE)
    assert [answer.status for answer in answers] == [200] * PULLS
    check_chain(alice, path, begin, {answer.json["merge_commit_sha"] for answer in answers})


def check_chain(api, path, begin, merged):
    """Each move of `main` begins where the previous one ended."""
    url = f"/events?scope=repo:{path}&kind=branch-pushed&per_page=100"
    moves = [event["data"] for event in api.get(url).gives()["results"]]
    after = {move["before"]: move["after"] for move in moves}
    assert len(moves) == len(after) == PULLS
    tip, seen = begin, set()
    while tip in after:
        tip = after[tip]
        seen.add(tip)
    assert seen == merged
