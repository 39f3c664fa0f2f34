"""A push moves a ref only from where it is: what two pushes under way say cannot make a loop."""

from __future__ import annotations

import pytest

from apps.git.protocol import FLUSH, ZERO, Command, pkt
from apps.repos.http.push import accept_refs, read_commands, receive, stale_moves
from apps.repos.models import PushJournal
from apps.repos.pushes import open_journal
from tests.git.scratch import Scratch, push_body
from tests.principals import access_of

NOWHERE = "d" * 40


def begin_push(by, old: str, new: str) -> dict[str, str]:
    """The command list of a push whose pack has not come yet; returns what is refused."""
    line = pkt(f"{old} {new} refs/heads/main\0report-status".encode())
    request, _ = read_commands(iter([line + FLUSH]))
    _, refused = accept_refs(by, request, stale_moves(by.repo, request))
    return refused


@pytest.mark.django_db
def test_a_move_has_to_begin_where_the_ref_is(make, team_repo, alice):
    """Two such steps would be a way from the ref's commit back to it, by a push to nowhere."""
    store = Scratch(team_repo.git.path)
    tip = store.commit({"a": b"1"})
    assert store.update_ref("refs/heads/main", tip, "0" * 40)
    by = access_of(alice, team_repo)
    assert begin_push(by, tip, NOWHERE) == {}
    reason = "this is not what is there now"
    assert begin_push(by, NOWHERE, tip) == {"refs/heads/main": reason}
    assert begin_push(by, NOWHERE, "0" * 40) == {"refs/heads/main": reason}
    assert list(PushJournal.objects.values_list("old", "new")) == [(tip, NOWHERE)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["creates", "moves", "deletes"])
def test_a_push_that_git_sends_again_by_itself_leaves_no_step_in_the_journal(
    team_repo, alice, tmp_path, kind
):
    """curl repeats a POST when a kept-alive connection dies without an answer. The first may end
    between the look at the disk and the lock of the second.
    """
    other = Scratch(tmp_path / "other.git")
    other.create()
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    old, new = {"creates": (ZERO, first), "moves": (first, second), "deletes": (first, ZERO)}[kind]
    by = access_of(alice, team_repo)
    for name in ("main", "topic") if kind != "creates" else ("main",):
        body = push_body(other, [Command(ZERO, first, f"refs/heads/{name}")])
        receive(by=by, body=iter([body]))
    ref = "refs/heads/side" if kind == "creates" else "refs/heads/topic"
    body = push_body(other, [Command(old, new, ref)])
    request, _ = read_commands(iter([body]))
    looked = stale_moves(team_repo, request)
    assert looked == {}
    assert f"ok {ref}".encode() in receive(by=by, body=iter([body]))
    assert accept_refs(by, request, looked) == (None, {ref: "this is not what is there now"})
    assert not PushJournal.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_move_back_to_what_is_stored_is_none_that_was_sent_again(team_repo, alice, tmp_path):
    """A push that has not been written down yet has moved the ref away."""
    other = Scratch(tmp_path / "other.git")
    other.create()
    first, second = other.commit({"a": b"1"}), other.commit({"a": b"2"})
    by = access_of(alice, team_repo)
    receive(by=by, body=iter([push_body(other, [Command(ZERO, first, "refs/heads/main")])]))
    open_journal(actor=alice, repo=team_repo, moves=[("refs/heads/main", first, second)])
    team_repo.git.fetch_objects(other, second)
    assert team_repo.git.update_ref("refs/heads/main", second, first)
    assert begin_push(by, second, first) == {}
