"""Writes what git has moved into the database: stored heads, events, pulls.

A push: `open_journal`, then git moves the refs, then `settle`. A merge moves its one ref under
the repository's lock and ends in `apply_moves` as well. Should a process die in between, `settle`
or `reconcile` follow up from the journal. All lock the repository.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Protocol, TypeAlias, cast

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.core.locks import lock
from apps.events.record import record
from apps.git.facts import GitFacts
from apps.git.repo import GitRepo
from apps.git.run import SERVICE_LIMITS, GitError
from apps.repos.models import PushJournal, Ref, Repo
from apps.repos.rules import ZERO, RefMove, longest_chain

EventWriter: TypeAlias = Callable[[], None]
"""Records one event."""
MOST_NAMED = 500
"""Refs that one query names; past that all of a repository are read."""
LONGEST_PUSH = dt.timedelta(seconds=2 * SERVICE_LIMITS.deadline)


def open_journal(*, actor: User, repo: Repo, moves: Iterable[tuple[str, str, str]]) -> uuid.UUID:
    """Store `(full_name, old, new)` moves before git may carry them out; returns the push's id."""
    push = uuid.uuid4()
    PushJournal.objects.bulk_create(
        PushJournal(repo=repo, push=push, actor=actor, full_name=name, old=old, new=new)
        for name, old, new in moves
    )
    return push


def settle(*, repo: Repo, push: uuid.UUID, own: Sequence[RefMove] = ()) -> None:
    """Bring rows and events up to what git has, and delete this push's journal.

    Each journal step becomes the event of its own actor, so that two pushes which finished close
    together keep their order and their people. `own`: the steps of this push, as its process
    remembers them. Those in the journal may be fewer: another push removes steps that do not start
    at the ref's current commit, and the ref may return to where such a step starts.
    """
    rows = PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")
    own = own or [move_of(row, repo) for row in rows if row.push == push]
    facts = read_facts(repo, own)
    with transaction.atomic():
        lock(repo)
        moves = find_moves(repo, list(rows.all()), own=own)
        PushJournal.objects.filter(repo=repo, push=push).delete()
        apply_moves(repo, moves, facts)


def reconcile(*, repo: Repo) -> int:
    """Bring rows and events up to what git has, whoever moved it; returns how many moves it found.

    The journal says who. Steps that git has not carried out stay while their push may still be
    under way, and are dropped after that.
    """
    rows = PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")
    facts = read_facts(repo, [move_of(row, repo) for row in rows])
    with transaction.atomic():
        lock(repo)
        present, stored = repo.git.refs(), dict(repo.refs.values_list("full_name", "sha"))
        changed = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
        moves = find_moves(repo, list(rows.all()), changed)
        rows.filter(created_at__lt=timezone.now() - LONGEST_PUSH).delete()
        apply_moves(repo, moves, facts)
    return len(moves)


def find_moves(
    repo: Repo,
    journal: Sequence[PushJournal],
    names: Iterable[str] = (),
    own: Sequence[RefMove] = (),
) -> list[RefMove]:
    """The steps from each stored head to git's present value, of the refs in the journal, of `own`
    and of `names`.

    Deletes the journal rows that these steps use, and all that do not start at the present value,
    since git moves a ref from nowhere else: those are of a push that was cut off and sent again.
    Where no chain of rows leads to the present value, it is one step, by who wanted that value.
    """
    known = [*(move_of(row, repo) for row in journal), *own]
    last = {(move.full_name, move.new): move.actor for move in known}
    names = dict.fromkeys([*(move.full_name for move in known), *names])
    present, stored = repo.git.some_refs(names), stored_heads(repo, names)
    moves: list[RefMove] = []
    used: list[int] = []
    for name in names:
        start, end = stored.get(name, ZERO), present.get(name, ZERO)
        here = [row for row in journal if row.full_name == name]
        chain = longest_chain(start, end, here)
        used += [row.pk for row in here if row.old != end]
        if chain is None:
            moves.append(RefMove(repo, name, start, end, last.get((name, end))))
            continue
        moves += [move_of(row, repo) for row in chain]
        used += [row.pk for row in chain]
    PushJournal.objects.filter(pk__in=used).delete()
    return moves


def stored_heads(repo: Repo, names: Collection[str]) -> dict[str, str]:
    """Full name -> stored head of these refs; of all of them where a query cannot name so many."""
    refs = repo.refs.all() if len(names) > MOST_NAMED else repo.refs.filter(full_name__in=names)
    return dict(refs.values_list("full_name", "sha"))


def move_of(row: PushJournal, repo: Repo) -> RefMove:
    """The step that a journal row announces."""
    return RefMove(repo, row.full_name, row.old, row.new, row.actor)


def apply_moves(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Store the heads, update the pulls, and write the events: of the moves, then of the pulls.

    Call it inside a transaction that holds the repository's lock, with what `read_facts` returned
    before. Followers lock rows of theirs, so they come before the first event, which takes the
    event lock.
    """
    if not moves:
        return
    repo.pushed_at = timezone.now()
    store_heads(repo, moves)
    branches = [move.name for move in moves if move.is_branch and move.new != ZERO]
    if repo.is_empty and branches:
        repo.is_empty = False
        if repo.default_branch not in branches:
            repo.default_branch = branches[0]
            repo.git.set_head_branch(repo.default_branch)
    repo.save(update_fields=["pushed_at", "is_empty", "default_branch"])
    later = [write for one in followers() for write in one.follow(repo, moves, facts)]
    for move in moves:
        record(move.kind, actor=move.actor, about=move, data=move_data(move, facts))
    for write in later:
        write()


def store_heads(repo: Repo, moves: Sequence[RefMove]) -> None:
    """Store where each ref is after all moves."""
    last = {move.full_name: move for move in moves}
    kept = [move for move in last.values() if move.new != ZERO]
    for name in set(last) - {move.full_name for move in kept}:
        repo.refs.filter(full_name=name).delete()
    Ref.objects.bulk_create(
        (Ref(repo=repo, full_name=m.full_name, sha=m.new, pushed_by=m.actor) for m in kept),
        update_conflicts=True,
        unique_fields=["repo", "full_name"],
        update_fields=["sha", "pushed_by", "updated_at"],
    )


def read_facts(repo: Repo, moves: Sequence[RefMove], known: GitFacts | None = None) -> GitFacts:
    """Ask git all that `apply_moves` will need for these moves, so that no lock waits for git.

    What is `known` is not asked. A move that git has refused may name objects that never arrived;
    it is not applied either.
    """
    facts = known or GitFacts()
    for move in moves:
        with suppress(GitError):
            move_data(move, facts)
    for follower in followers():
        follower.read(repo, moves, facts)
    return facts


def move_data(move: RefMove, facts: GitFacts) -> dict[str, object]:
    """The event's data: before, after, and for a branch that moved how many commits it gained and
    whether it lost any.
    """
    data: dict[str, object] = {
        "before": None if move.old == ZERO else move.old,
        "after": None if move.new == ZERO else move.new,
    }
    if move.is_branch and ZERO not in (move.old, move.new):
        distance = facts.ask(GitRepo.distance, move.repo.git, move.old, move.new)
        data["forced"] = distance.lost > 0
        data["commit_count"] = distance.gained
    return data


class Follower(Protocol):
    """A module of `settings.AFTER_PUSH`: is called for every push and every merge."""

    def read(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
        """Ask git what `follow` will need, before the lock; `facts` keeps the answers."""

    def follow(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[EventWriter]:
        """Write rows, under the lock and after the heads; returns what writes the events."""


def followers() -> list[Follower]:
    """The modules of `settings.AFTER_PUSH`."""
    return [cast("Follower", import_module(name)) for name in settings.AFTER_PUSH]
