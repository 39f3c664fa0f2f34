"""A push may move a ref only from its current value, on disk and as acknowledged."""

from __future__ import annotations

import pytest

from apps.events.models import Event
from apps.git.protocol import FLUSH, ZERO, Command, pkt
from apps.repos import jobs
from apps.repos.http.push import accept_refs, read_commands, receive, stale_moves
from apps.repos.models import PushJournal
from apps.repos.pushes import open_journal, reconcile
from tests.git.scratch import Scratch, push_body
from tests.principals import access_of
from tests.repos.conftest import push_to

NOWHERE = "d" * 40


def begin_push(by, old: str, new: str) -> dict[str, str]:
    """Read the command list of a push; return the refused refs."""
    line = pkt(f"{old} {new} refs/heads/main\0report-status".encode())
    request, _ = read_commands(iter([line + FLUSH]))
    _, refused = accept_refs(by, request, stale_moves(by.repo, request))
    return refused


@pytest.mark.django_db
def test_a_move_has_to_begin_where_the_ref_is(make, team_repo, alice):
    """Two such steps would form a chain from the ref's commit back to itself."""
    store = Scratch(team_repo.git.path)
    tip = store.commit({"a": b"1"})
    assert store.update_ref("refs/heads/main", tip, "0" * 40)
    by = access_of(alice, team_repo)
    assert begin_push(by, tip, NOWHERE) == {}
    reason = "stale info: the ref has moved"
    assert begin_push(by, NOWHERE, tip) == {"refs/heads/main": reason}
    assert begin_push(by, NOWHERE, "0" * 40) == {"refs/heads/main": reason}
    assert list(PushJournal.objects.values_list("old", "new")) == [(tip, NOWHERE)]


@pytest.fixture
def disk_is_behind(clone):
    """Let the disk show main's value before Alice's last push, which was acknowledged. Returns the
    old value and the new one.
    """
    before = clone.head("main")
    clone.commit("main", {"a": "2\n"})
    clone.push("main")
    last = clone.head("main")
    clone.server("update-ref", "refs/heads/main", before)
    return before, last


def pushed(repo, by, command: Command) -> str:
    """The report of a push of a commit that the server already has."""
    return push_to(repo, by, Scratch(repo.git.path), command)


REASON = "fetch first: the ref has moved"
MAIN = "refs/heads/main"


@pytest.mark.parametrize("act", ["move", "delete"])
def test_a_push_on_top_of_a_disk_that_lies_takes_no_commit_from_a_branch(
    clone, disk_is_behind, bob, act
):
    before, last = disk_is_behind
    events = Event.objects.count()
    new = Scratch(clone.repo.git.path).commit({"b": b"1"}, before) if act == "move" else ZERO
    assert f"ng {MAIN} {REASON}\n" in pushed(clone.repo, bob, Command(before, new, MAIN))
    assert clone.repo.git.ref(MAIN) == before
    assert clone.repo.branch_sha("main") == last
    assert (Event.objects.count(), PushJournal.objects.count()) == (events, 0)


def test_a_branch_that_the_disk_does_not_show_is_not_created_over(clone, bob):
    last = clone.head("main")
    clone.server("update-ref", "-d", MAIN)
    new = Scratch(clone.repo.git.path).commit({"b": b"1"})
    assert f"ng {MAIN} {REASON}\n" in pushed(clone.repo, bob, Command(ZERO, new, MAIN))
    assert clone.repo.branch_sha("main") == last


def test_a_push_goes_on_where_the_disk_shows_the_last_push_again(clone, disk_is_behind, bob):
    _, last = disk_is_behind
    clone.server("update-ref", MAIN, last)
    new = Scratch(clone.repo.git.path).commit({"b": b"1"}, last)
    assert f"ok {MAIN}\n" in pushed(clone.repo, bob, Command(last, new, MAIN))
    assert clone.repo.branch_sha("main") == new


def test_neither_a_push_nor_the_worker_writes_down_what_a_disk_that_lies_shows(
    clone, disk_is_behind, alice, bob, caplog
):
    """The journal has a step of the ref, so that settling reads it."""
    before, last = disk_is_behind
    events = Event.objects.count()
    open_journal(actor=alice, repo=clone.repo, moves=[(MAIN, last, NOWHERE)])
    jobs.settle_journals()
    assert Event.objects.count() == events
    assert "run manage.py reconcile" in caplog.text
    new = Command(ZERO, before, "refs/heads/other")
    assert "ok refs/heads/other\n" in pushed(clone.repo, bob, new)
    assert clone.repo.branch_sha("main") == last
    assert PushJournal.objects.get().is_overtaken is False
    assert reconcile(repo=clone.repo) == 1
    assert clone.repo.branch_sha("main") == before


@pytest.mark.parametrize("forced", [False, True])
def test_a_push_on_top_of_one_that_died_before_its_rows_is_taken(clone, alice, bob, forced):
    """The journal explains the ref's value, even if the ref has lost a commit."""
    stored, store = clone.head("main"), Scratch(clone.repo.git.path)
    died = store.commit({"b": b"1"}, *([] if forced else [stored]))
    open_journal(actor=alice, repo=clone.repo, moves=[(MAIN, stored, died)])
    clone.server("update-ref", MAIN, died)
    new = store.commit({"b": b"2"}, died)
    assert f"ok {MAIN}\n" in pushed(clone.repo, bob, Command(died, new, MAIN))
    heads = Event.objects.filter(kind="branch-pushed").order_by("id")
    assert [(event.actor, event.data["after"]) for event in heads] == [(alice, died), (bob, new)]


def test_rows_that_are_behind_the_disk_without_a_journal_hold_up_no_push(clone, bob):
    """Only if no commit can be lost."""
    stored, store = clone.head("main"), Scratch(clone.repo.git.path)
    ahead = store.commit({"b": b"1"}, stored)
    clone.server("update-ref", MAIN, ahead)
    new = store.commit({"b": b"2"}, ahead)
    assert f"ok {MAIN}\n" in pushed(clone.repo, bob, Command(ahead, new, MAIN))
    assert clone.repo.branch_sha("main") == new


def test_an_atomic_push_with_an_outdated_move_moves_nothing(clone, disk_is_behind, bob):
    before, _ = disk_is_behind
    store = Scratch(clone.repo.git.path)
    new = store.commit({"b": b"1"}, before)
    commands = [Command(before, new, MAIN), Command(ZERO, new, "refs/heads/other")]
    body = push_body(store, commands, "report-status atomic")
    report = receive(access=access_of(bob, clone.repo), body=iter([body])).decode()
    assert f"ng {MAIN} {REASON}\n" in report
    assert "ng refs/heads/other atomic push failed\n" in report


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["creates", "moves", "deletes"])
def test_a_push_that_git_sends_again_by_itself_leaves_no_step_in_the_journal(
    team_repo, other, alice, kind
):
    """curl repeats a POST when a kept-alive connection breaks without an answer. The first push may
    end after the second has read the disk and before it takes the lock.
    """
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    old, new = {"creates": (ZERO, first), "moves": (first, second), "deletes": (first, ZERO)}[kind]
    by = access_of(alice, team_repo)
    for name in ("main", "topic") if kind != "creates" else ("main",):
        push_to(team_repo, alice, other, Command(ZERO, first, f"refs/heads/{name}"))
    ref = "refs/heads/side" if kind == "creates" else "refs/heads/topic"
    body = push_body(other, [Command(old, new, ref)])
    request, _ = read_commands(iter([body]))
    looked = stale_moves(team_repo, request)
    assert looked == {}
    assert f"ok {ref}".encode() in receive(access=by, body=iter([body]))
    assert accept_refs(by, request, looked) == (None, {ref: "stale info: the ref has moved"})
    assert not PushJournal.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_move_back_to_what_is_stored_is_none_that_was_sent_again(team_repo, other, alice):
    """A push that is not settled yet has moved the ref away."""
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    by = access_of(alice, team_repo)
    push_to(team_repo, alice, other, Command(ZERO, first, "refs/heads/main"))
    open_journal(actor=alice, repo=team_repo, moves=[("refs/heads/main", first, second)])
    team_repo.git.fetch_objects(other, second)
    assert team_repo.git.update_ref("refs/heads/main", second, first)
    assert begin_push(by, second, first) == {}
