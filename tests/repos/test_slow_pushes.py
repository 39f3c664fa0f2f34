"""Pushes that are under way while others move the same ref."""

from __future__ import annotations

import pytest

from apps.events.models import Event
from apps.git.protocol import ZERO, Command
from apps.repos.http.push import receive
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import RefMove
from tests.git.scratch import Scratch, push_body
from tests.principals import access_of

MAIN, TOPIC = "refs/heads/main", "refs/heads/topic"


@pytest.fixture
def other(tmp_path):
    """A repository from which commits are pushed."""
    other = Scratch(tmp_path / "other.git")
    other.create()
    return other


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("begins", ["at a commit", "without the branch"])
def test_a_ref_that_moves_away_and_back_meanwhile_is_moved_by_whom_it_is(
    team_repo, other, alice, bob, begins
):
    """Else nobody would know that git has moved it, and its pusher could approve it."""
    here, away, new = (other.commit({"a": b"%d" % number}) for number in range(3))

    def push(person, old, new, meanwhile=lambda: None, ref=TOPIC):
        body = push_body(other, [Command(old, new, ref)])

        def slowly():
            yield body[:-10]
            meanwhile()
            yield body[-10:]

        assert f"ok {ref}".encode() in receive(by=access_of(person, team_repo), body=slowly())

    push(alice, ZERO, here, ref=MAIN)  # the first branch cannot be deleted
    start = ZERO
    if begins == "at a commit":
        start = here
        push(alice, ZERO, here)

    def away_and_back():
        push(alice, start, away)
        push(alice, away, start)

    push(bob, start, new, away_and_back)
    stored = team_repo.refs.get(full_name=TOPIC)
    assert (stored.sha, stored.pushed_by) == (new, bob)
    last = Event.objects.latest("id")
    assert (last.actor, last.data["after"]) == (bob, new)


@pytest.mark.django_db(transaction=True)
def test_a_push_onto_one_that_is_not_written_down_yet_is_its_pushers(team_repo, other, alice, bob):
    """A step that was dropped leaves a gap, but who made the last one is known."""
    here, away, new, newer = (other.commit({"a": b"%d" % number}) for number in range(4))

    def push(person, old, new):
        body = push_body(other, [Command(old, new, MAIN)])
        assert b"ok refs/heads/main" in receive(by=access_of(person, team_repo), body=iter([body]))

    push(alice, ZERO, here)
    slow = open_journal(actor=bob, repo=team_repo, moves=[(MAIN, here, new)])
    push(alice, here, away)
    push(alice, away, here)
    team_repo.git.fetch_objects(other, new)
    assert team_repo.git.update_ref(MAIN, new, here)
    push(bob, new, newer)
    settle(repo=team_repo, push=slow, own=[RefMove(team_repo, MAIN, here, new, bob)])
    stored = team_repo.refs.get()
    assert (stored.sha, stored.pushed_by) == (newer, bob)
    last = Event.objects.latest("id")
    assert (last.actor, last.data["before"], last.data["after"]) == (bob, here, newer)
