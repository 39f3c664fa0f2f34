"""Nothing is merged past its conditions, whatever happens at the same time.

Threads push, report, review, merge, set auto-merges, and change rules and roles, in a random order
that follows from a seed. More changes come between the plan of a merge and its last transaction.
Afterwards the event log shows under which conditions each pull was merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.core.errors import ApiError
from apps.events.models import Event
from apps.pulls import actions
from apps.pulls.jobs import check_next_conflict, try_next_auto_merge
from apps.pulls.models import Pull
from apps.repos.actions import update_protection
from apps.repos.models import Protection
from apps.statuses.actions import create_status
from apps.teams.actions import update_member
from apps.teams.models import Member, Role
from tests.factories import MemberFactory, UserFactory
from tests.gitclient import Clone
from tests.principals import access_of, team_access_of
from tests.pulls import push_hook
from tests.races import together

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 15))]
STEPS = 6
"""Changes that each thread tries."""
LOCKING = ("branch-", "pull-", "protection-", "auto-merge-set")
"""The beginnings of the kinds whose actions lock the repository, as a merge does."""


class Changes:
    """Random changes of a repository with some pulls. `mo` merges only by auto-merges; the statuses
    of `bot` always count, those of `eve` only without named reporters.
    """

    def __init__(self, clone: Clone, pulls: Sequence[Pull], people: dict[str, User]) -> None:
        self.clone, self.people = clone, people
        self.numbers = [pull.number for pull in pulls]
        self.heads = {pull.number: [str(pull.head_sha)] for pull in pulls}

    def access(self, name: str) -> Any:
        return access_of(self.people[name], self.repo)

    @property
    def repo(self) -> Any:
        return type(self.clone.repo).objects.get(pk=self.clone.repo.pk)

    def pull(self, random: Random) -> Pull:
        rows = Pull.objects.select_related("repo", "thread")
        return rows.get(repo=self.clone.repo, number=random.choice(self.numbers))

    def push(self, random: Random) -> None:
        pull = self.pull(random)
        heads, branch = self.heads[pull.number], pull.source_branch
        if random.random() < 0.3:
            self.clone.push(f"{random.choice(heads)}:{branch}")
        else:
            heads.append(self.clone.push_commit(branch, {branch: str(random.random())}))

    def report(self, random: Random) -> None:
        pull = self.pull(random)
        sha = random.choice([str(pull.head_sha), *self.heads[pull.number]])
        state = random.choice(["success", "success", "failure", "pending", "error"])
        context, name = random.choice(["ci", "ci", "lint"]), random.choice(["bot", "bot", "eve"])
        create_status(access=self.access(name), sha=sha, context=context, state=state)

    def fail(self, random: Random) -> None:
        """Report a failure of each head."""
        for head in Pull.objects.exclude(status="merged").values_list("head_sha", flat=True):
            report = {"sha": str(head), "context": "ci", "state": "failure"}
            create_status(access=self.access("bot"), **report)

    def review(self, random: Random) -> None:
        status = random.choice(["approved", "approved", "changes_requested"])
        actions.create_review(access=self.access("bot"), pull=self.pull(random), status=status)

    def rule(self, random: Random) -> None:
        update_protection(
            access=self.access("alice"),
            protection=Protection.objects.get(),
            required_statuses=random.choice([["ci"], ["ci"], ["ci", "lint"], []]),
            status_reporters=random.choice([["bot"], ["bot"], []]),
        )

    def role(self, random: Random) -> None:
        access = team_access_of(self.people["alice"], self.repo.owner_team)
        member = Member.objects.get(user=self.people["mo"])
        role = random.choice([Role.MEMBER, Role.MEMBER, Role.VIEWER])
        update_member(access=access, member=member, role=role)

    def status(self, random: Random) -> None:
        status = random.choice(["open", "open", "draft"])
        actions.update_pull(access=self.access("alice"), pull=self.pull(random), status=status)

    def make_green(self, pull: Pull) -> None:
        for context in ("ci", "lint"):
            report = {"sha": str(pull.head_sha), "context": context, "state": "success"}
            create_status(access=self.access("bot"), **report)

    def merge(self, random: Random) -> None:
        strategy, pull = random.choice(["merge", "squash"]), self.pull(random)
        self.make_green(pull)
        actions.merge_pull(access=self.access("alice"), pull=pull, merge_strategy=strategy)

    def auto_merge(self, random: Random) -> None:
        """Set an auto-merge, make the pull green, and let a worker try it."""
        pull = self.pull(random)
        actions.set_auto_merge(access=self.access("mo"), pull=pull)
        self.make_green(pull)
        self.work(random)

    def cancel(self, random: Random) -> None:
        actions.cancel_auto_merge(access=self.access("alice"), pull=self.pull(random))

    def work(self, random: Random) -> None:
        while check_next_conflict() or try_next_auto_merge():
            pass

    def some(
        self, seed: int, *changes: Callable[[Random], None], steps: int = STEPS
    ) -> Callable[[], None]:
        """A function for a thread, which tries some of these changes in a random order."""

        def run() -> None:
            random = Random(seed)  # noqa: S311 - it decides about no secret
            for _ in range(steps):
                with suppress(ApiError):
                    random.choice(changes)(random)

        return run


@dataclass
class State:
    """The conditions of merges, as the event log shows them up to some event."""

    required: list[str] = field(default_factory=list)
    reporters: list[str] = field(default_factory=list)
    reports: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Commit, context, reporter and state, oldest first."""
    heads: dict[int, str] = field(default_factory=dict)
    drafts: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    """Pulls whose changes are requested."""
    auto_merges: dict[int, str] = field(default_factory=dict)
    """The head of each pull with an auto-merge."""
    mo_may_write: bool = True

    def follow(self, event: Event) -> None:
        kind, data, number = event.kind, event.data, event.number or 0
        if kind.startswith("protection-"):
            self.required, self.reporters = data["required_statuses"], data["status_reporters"]
        elif kind == "status-created":
            name = event.actor.username if event.actor else ""
            self.reports.append((data["sha"], data["context"], name, data["state"]))
        elif kind in {"pull-created", "pull-pushed"}:
            self.heads[number] = data["head_sha"]
        elif kind == "member-updated":
            self.mo_may_write = data["role"] != Role.VIEWER
        elif kind in {"pull-drafted", "pull-readied"}:
            self.drafts ^= {number}
        elif kind == "review-created":
            self.refused -= {number}
            self.refused |= {number} if data["status"] == "changes_requested" else set()
        elif kind == "auto-merge-set":
            self.auto_merges[number] = data["head_sha"]
        elif kind == "auto-merge-ended":
            del self.auto_merges[number]

    def is_green(self, sha: str) -> bool:
        return all(self.latest(sha, context) == "success" for context in self.required)

    def latest(self, sha: str, context: str) -> str:
        for commit, name, reporter, state in reversed(self.reports):
            counts = not self.reporters or reporter in self.reporters
            if (commit, name) == (sha, context) and counts:
                return state
        return "missing"


def merges() -> Iterator[tuple[Event, list[State]]]:
    """Each merge with the states of the log at which it can have been checked, the last one last.

    On SQLite that is the last one. On PostgreSQL, statuses and roles do not wait for the lock of
    the repository: they may change after the check, but not the events before the last change that
    held this lock.
    """
    state, possible = State(), [State()]
    for event in Event.objects.select_related("actor").order_by("id"):
        if event.kind == "pull-merged":
            yield event, possible if connection.vendor == "postgresql" else possible[-1:]
        state.follow(event)
        if event.kind == "branch-pushed":
            continue  # it is recorded with the merge or push that follows
        if event.kind.startswith(LOCKING):
            possible.clear()
        possible.append(deepcopy(state))


def check_log() -> list[Event]:
    """Each merge in the log had all of its conditions. Returns those of auto-merges."""
    by_auto_merge = []
    for event, possible in merges():
        head, number, last = event.data["head_sha"], event.number or 0, possible[-1]
        assert last.heads[number] == head
        assert number not in last.drafts | last.refused
        assert any(state.is_green(head) for state in possible), (event.pk, last)
        if event.actor and event.actor.username == "mo":
            assert last.auto_merges[number] == head
            assert any(state.mo_may_write for state in possible), event.pk
            by_auto_merge.append(event)
        pull = Pull.objects.get(thread=event.thread_id)
        assert (pull.status, pull.head_sha, pull.merged_by) == ("merged", head, event.actor)
    return by_auto_merge


@pytest.fixture
def changes(make, clone, acme, alice):
    people = {"alice": alice}
    for name in ("bot", "eve", "mo"):
        people[name] = UserFactory.create(username=name)
        MemberFactory.create(team=acme, user=people[name], role=Role.MEMBER)
    protection = make.protection(clone.repo, by=alice)
    update_protection(
        access=access_of(alice, clone.repo),
        protection=protection,
        required_statuses=["ci"],
        status_reporters=["bot"],
        required_approvals=0,
    )
    pulls = []
    for branch in ("one", "two", "three", "four"):
        clone.push_commit(branch, {branch: "new\n"}, onto="main")
        pulls.append(make.pull(clone.repo, by=alice, source=branch))
    return Changes(clone, pulls, people)


def merge_the_rest(changes):
    """Each pull that is left is merged by an auto-merge once it is green."""
    random = AlwaysFirst()
    changes.role(random)
    changes.rule(random)
    for number in changes.numbers:
        pull = Pull.objects.select_related("repo", "thread").get(number=number)
        if pull.is_active:
            actions.update_pull(access=changes.access("alice"), pull=pull, status="open")
            actions.create_review(access=changes.access("bot"), pull=pull, status="approved")
            actions.set_auto_merge(access=changes.access("mo"), pull=pull)
            changes.work(random)
            changes.make_green(pull)
    changes.work(random)
    left = Pull.objects.exclude(status="merged").order_by("number")
    assert [*left.values_list("number", "status", "auto_merge_due_at")] == []


class AlwaysFirst(Random):
    def choice(self, options: Any) -> Any:
        return options[0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_merged_without_its_conditions_in_any_order(changes, settings, seed):
    settings.AFTER_PUSH = ["tests.pulls.push_hook", *settings.AFTER_PUSH]
    one = changes
    late = [one.fail, one.fail, one.rule, one.role, one.cancel, one.review, one.status, one.work]
    push_hook.preparing += [one.some(seed + step, *late, steps=1) for step in range(1000)]
    try:
        together(
            one.some(seed, one.push, one.review, one.status, one.role, steps=4),
            one.some(seed + 100, one.report, one.report, one.rule),
            one.some(seed + 200, one.merge, one.auto_merge),
            one.some(seed + 300, one.auto_merge),
        )
    finally:
        push_hook.preparing.clear()
    check_log()
    merge_the_rest(changes)
    check_log()
