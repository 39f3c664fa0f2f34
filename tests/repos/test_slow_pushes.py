"""Pushes that are under way while others move the same ref."""

from __future__ import annotations

import pytest

from apps.events.models import Event
from apps.repos.git.protocol import ZERO, Command
from apps.repos.gitpush import receive
from tests.repos.git.scratch import Scratch, push_body

TOPIC = "refs/heads/topic"


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

        assert f"ok {ref}".encode() in receive(actor=person, repo=team_repo, body=slowly())

    push(alice, ZERO, here, ref="refs/heads/main")  # the first branch cannot be deleted
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
