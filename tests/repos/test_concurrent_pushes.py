"""Pushes of several people move one branch to and fro, their steps interleaved at random."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from random import Random
from uuid import UUID

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.events.models import Event
from apps.git.protocol import Command
from apps.repos.models import PushJournal
from apps.repos.pushes import find_moves, journal_of, mark_steps, open_journal, settle
from apps.repos.rules import ZERO, RefMove
from tests.repos.conftest import push_to
from tests.waiting import eventually

MAIN = "refs/heads/main"
AT_ONCE, PUSHES, MOST_STEPS = 6, 30, 2000


class Stage(IntEnum):
    """The last thing that a push has done."""

    IN_JOURNAL, WITH_GIT, REPORTED, SETTLED = range(4)


@dataclass
class Push:
    id: UUID
    move: RefMove
    stage: Stage = Stage.IN_JOURNAL
    is_moved: bool = False

    @property
    def own(self) -> list[RefMove]:
        return [self.move] if self.is_moved else []


class Race:
    """Pushes to main between commits. `moves` are those that git has made, in order."""

    def __init__(self, repo, commits, people, seed):
        self.repo, self.commits, self.people = repo, commits, people
        self.random = Random(seed)  # noqa: S311 - repeatable
        self.head = commits[0]
        self.pushes: list[Push] = []
        self.moves: list[tuple[User, str, str]] = []
        self.doubted: list[Push] = []

    def run(self):
        for _ in range(MOST_STEPS):
            active = [push for push in self.pushes if push.stage < Stage.SETTLED]
            may_begin = len(active) < AT_ONCE and len(self.pushes) < PUSHES
            if not active and not may_begin:
                return
            push = self.random.choice([*active, *[None, None][: 2 * may_begin]])
            if push is None:
                self.begin(self.people[len(self.pushes) % len(self.people)])
            else:
                self.advance(push)
        pytest.fail("a push never ends")

    def begin(self, actor):
        new = self.random.choice([commit for commit in self.commits if commit != self.head])
        move = RefMove(self.repo, MAIN, self.head, new, actor)
        steps = [(MAIN, move.old, move.new)]
        id = open_journal(actor=actor, repo=self.repo, moves=steps)
        self.pushes.append(Push(id, move))
        return self.pushes[-1]

    def advance(self, push):
        move = push.move
        if push.stage == Stage.IN_JOURNAL:
            push.is_moved = self.head == move.old
            if push.is_moved:
                assert self.repo.git.update_ref(MAIN, move.new, move.old)
                self.head = move.new
                self.moves.append((move.actor, move.old, move.new))
        elif push.stage == Stage.WITH_GIT:
            mark_steps(push.id, {MAIN: push.is_moved})
        elif self.waits(push):
            return
        elif settle(repo=self.repo, push=push.id, own=push.own):
            self.doubted.append(push)
        push.stage = Stage(push.stage + 1)

    def waits(self, push):
        """Whether the push would wait for reports of others, outside a transaction."""
        return find_moves(
            self.repo, [MAIN], journal_of(self.repo), push.own, lambda _: True
        ).needs_reports


@pytest.fixture
def race(team_repo, other, alice, bob, carol, request):
    number, seed = request.param
    commits = [other.commit({"a": b"%d" % n}) for n in range(number)]
    push_to(team_repo, alice, other, Command(ZERO, commits[0], MAIN))
    for commit in commits:
        team_repo.git.fetch_objects(other, commit)
    return Race(team_repo, commits, [alice, bob, carol], seed)


def recorded():
    events = Event.objects.filter(kind="branch-pushed").select_related("actor").order_by("id")
    return [(event.actor, event.data["before"], event.data["after"]) for event in events]


@pytest.mark.parametrize("race", [(2, seed) for seed in range(8)], indirect=True)
def test_between_two_commits_each_move_is_one_event_in_order(race):
    """The people of equal moves may be in another order."""
    race.run()
    assert [move[1:] for move in recorded()] == [move[1:] for move in race.moves]
    assert sorted(map(str, recorded())) == sorted(map(str, race.moves))
    assert not race.doubted and not PushJournal.objects.exists()


@pytest.mark.parametrize("race", [(3, seed) for seed in range(4)], indirect=True)
def test_between_three_commits_each_move_is_one_event(race):
    """Two ways there and back may be in another order."""
    race.run()
    assert sorted(map(str, recorded())) == sorted(map(str, race.moves))
    assert not race.doubted and not PushJournal.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_push_waits_for_the_report_about_a_later_one(team_repo, other, alice, bob, carol):
    """Two people moved the branch back, as the journal says, and only git's report tells which."""
    race = Race(team_repo, [other.commit({"a": b"%d" % n}) for n in range(2)], [alice], 0)
    push_to(team_repo, alice, other, Command(ZERO, race.head, MAIN))
    team_repo.git.fetch_objects(other, race.commits[1])
    there = race.begin(alice)
    race.advance(there)
    refused, back = race.begin(bob), race.begin(carol)
    race.advance(back)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(settle_apart, there)
        eventually(PushJournal.objects.filter(push=there.id, is_made=True).exists)
        assert race.waits(there) and not waiting.done()
        race.advance(back)
        assert waiting.result(60) == set()
    race.advance(back)
    settle(repo=team_repo, push=refused.id, own=[refused.move], reported={MAIN: False})
    assert [actor for actor, *_ in recorded()] == [alice, carol]
    assert not PushJournal.objects.exists()


def settle_apart(push):
    """Settle a reported push on a connection of the thread's own."""
    with closing(connection):
        return settle(
            repo=push.move.repo, push=push.id, own=push.own, reported={MAIN: push.is_moved}
        )
