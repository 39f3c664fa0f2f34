"""The stored conflict of a pull is about its current head and base."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection
from django.utils import timezone

from apps.pulls import jobs
from apps.pulls.models import Pull
from tests.migrations import as_of
from tests.pulls import paths


def stored(pull: Pull) -> tuple[bool | None, bool]:
    """`has_conflict`, and whether the worker has yet to check the pull."""
    row = Pull.objects.get(pk=pull.pk)
    return row.has_conflict, row.conflict_due_at is not None


def work() -> int:
    """Let the worker check all pending pulls; return their number."""
    done = 0
    while jobs.check_next_conflict():
        done += 1
    return done


def test_a_conflict_is_told_of_the_tips_that_the_pull_has(pull, clone):
    assert stored(pull) == (None, True)
    assert work() == 1 and stored(pull) == (False, False)
    clone.push_commit("main", {"arch": "shut\n"})
    assert stored(pull) == (None, True)
    assert work() == 1 and stored(pull) == (True, False)
    clone.push_commit("feature", {"arch": "shut\n"})
    assert stored(pull) == (None, True)
    assert work() == 1 and stored(pull) == (False, False)


def test_an_answer_is_not_stored_when_a_branch_has_moved_meanwhile(pull, clone):
    clone.commit("main", {"arch": "shut\n"})
    pushes = [lambda: clone.push("main")]

    def push_first(execute, sql, *args):
        """Push between git's answer and the statement that stores it."""
        if sql.startswith('UPDATE "pulls_pull" SET "has_conflict"') and pushes:
            pushes.pop()()
        return execute(sql, *args)

    with connection.execute_wrapper(push_first):
        assert jobs.check_next_conflict()
    assert not pushes and stored(pull) == (None, True)
    assert work() == 1 and stored(pull) == (True, False)


def test_a_pull_of_a_busy_target_keeps_its_turn_when_the_target_moves_again(
    make, pull, clone, alice
):
    clone.push("feature:other")
    other = make.pull(clone.repo, by=alice, source="other")
    answered: list[int] = []
    for number in range(2):
        clone.push_commit("main", {"README": f"Renovated {number} times.\n"})
        assert jobs.check_next_conflict()
        answered += Pull.objects.filter(has_conflict=False).values_list("pk", flat=True)
    assert sorted(answered) == sorted([pull.pk, other.pk])


def test_a_pull_that_git_could_not_tell_of_is_asked_about_at_once_when_its_tips_move(pull, clone):
    for branch in ("main", "feature"):
        later = timezone.now() + dt.timedelta(minutes=10)
        Pull.objects.update(has_conflict=None, conflict_due_at=later)
        clone.push_commit(branch, {f"more of {branch}": "\n"})
        assert work() == 1 and stored(pull) == (False, False)


def test_nothing_is_asked_of_a_pull_that_lacks_a_branch_until_it_comes(make, clone, alice):
    pull = make.pull(clone.repo, by=alice, source="later")
    assert stored(pull) == (None, False) and work() == 0
    clone.push_commit("later", {"arch": "open\n"}, onto="main")
    assert work() == 1 and stored(pull) == (False, False)
    clone.push(":later")
    assert work() == 0 and stored(pull) == (False, False)


def test_a_closed_pull_is_asked_about_when_it_is_reopened(api, pull, alice):
    url = f"{paths.pull(pull)}/status"
    api(alice).put(url, status="closed").gives()
    assert work() == 0
    Pull.objects.update(conflict_due_at=None)  # as before conflicts were stored
    api(alice).put(url, status="open").gives()
    assert work() == 1 and stored(pull) == (False, False)


def test_what_git_cannot_tell_is_put_off_and_holds_up_no_other(make, pull, clone, alice):
    clone.push("feature:other")
    other = make.pull(clone.repo, by=alice, source="other")
    Pull.objects.filter(pk=pull.pk).update(head_sha="1" * 40)
    now = timezone.now()
    assert work() == 2
    assert stored(pull) == (None, True) and stored(other) == (False, False)
    due_at = Pull.objects.get(pk=pull.pk).conflict_due_at
    assert due_at is not None and due_at >= now + dt.timedelta(minutes=10)


@pytest.mark.django_db(transaction=True)
def test_of_older_pulls_those_that_can_be_merged_are_asked_about(api, make, pull, clone, alice):
    clone.push("feature:other", "feature:third")
    draft = make.pull(clone.repo, by=alice, source="other")
    api(alice).put(f"{paths.pull(draft)}/status", status="draft").gives()
    closed = make.pull(clone.repo, by=alice, source="third")
    api(alice).put(f"{paths.pull(closed)}/status", status="closed").gives()
    waiting = make.pull(clone.repo, by=alice, source="later")
    work()
    with as_of("pulls", "0012_versions"):
        pass
    states = [stored(row) for row in (pull, draft, closed, waiting)]
    assert states == [(None, True), (None, True), (None, False), (None, False)]
    assert work() == 2 and stored(pull) == stored(draft) == (False, False)


@pytest.mark.django_db(transaction=True)
def test_older_pulls_that_may_have_nothing_to_merge_are_asked_about_again(make, pull, clone, alice):
    clone.push("main:other")
    empty = make.pull(clone.repo, by=alice, source="other")
    assert work() == 2
    with as_of("pulls", "0013_conflicts"):
        pass
    assert stored(pull) == (False, False) and stored(empty) == (None, True)
    assert work() == 1 and Pull.objects.get(pk=empty.pk).nothing_to_merge
