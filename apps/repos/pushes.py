"""From refs that git has moved to stored heads, events and pulls (engine.md §3).

A push: `open_journal`, then git moves the refs, then `settle`. A merge moves its one ref under
the repository's lock and ends in `apply_moves` as well. Lock: the repository's row.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.core.locks import lock
from apps.events.record import record
from apps.git import cache
from apps.git.run import SERVICE_LIMITS, GitError
from apps.repos.models import PushJournal, Ref, Repo
from apps.repos.rules import ZERO, RefMove, Step, longest_chain

if TYPE_CHECKING:
    from apps.accounts.models import User


MOST_NAMED = 500
LONGEST_PUSH = dt.timedelta(seconds=2 * SERVICE_LIMITS.deadline)


def open_journal(*, actor: User, repo: Repo, moves: Iterable[tuple[str, str, str]]) -> uuid.UUID:
    """Note `(full_name, old, new)` moves before git may carry them out; returns the push's id."""
    push = uuid.uuid4()
    PushJournal.objects.bulk_create(
        PushJournal(repo=repo, push=push, actor=actor, full_name=name, old=old, new=new)
        for name, old, new in moves
    )
    return push


def settle(*, repo: Repo, push: uuid.UUID, own: Sequence[RefMove] = ()) -> None:
    """Bring rows and events up to what git has, and forget this push's journal.

    Each journal step becomes the event of its own actor, so that two pushes which finished close
    together keep their order and their people. `own`: what whoever has noted this push remembers
    of it, because others drop a step that cannot be taken from where the ref is, and then the ref
    may come back there.
    """
    rows = PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")
    own = own or [move_of(row, repo) for row in rows if row.push == push]
    prepare(repo, own)
    with transaction.atomic():
        lock(repo)
        moves = find_moves(repo, list(rows.all()), own=own)
        PushJournal.objects.filter(repo=repo, push=push).delete()
        apply_moves(repo, moves)


def reconcile(*, repo: Repo) -> int:
    """Bring rows and events up to what git has, whoever moved it; returns how many moves it found.

    The journal says who. Steps that git has not carried out stay while their push may still be
    under way, and are dropped after that.
    """
    rows = PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")
    prepare(repo, [move_of(row, repo) for row in rows])
    with transaction.atomic():
        lock(repo)
        present, stored = repo.git.refs(), dict(repo.refs.values_list("full_name", "sha"))
        changed = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
        moves = find_moves(repo, list(rows.all()), changed)
        rows.filter(created_at__lt=timezone.now() - LONGEST_PUSH).delete()
        apply_moves(repo, moves)
    return len(moves)


def find_moves(
    repo: Repo,
    journal: Sequence[PushJournal],
    names: Iterable[str] = (),
    own: Sequence[RefMove] = (),
) -> list[RefMove]:
    """The steps from each stored head to git's present value, of the refs in the journal, of `own`
    and of `names`; drops the rows that they used, and all that do not begin at the present value:
    git takes no step from anywhere else. Such a one is of a push that was cut off and sent again.

    Where no chain leads there, it is one step, by whoever wanted the ref to be where it is.
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
        steps = [Step(row.old, row.new, row) for row in here]
        chain = longest_chain(start, end, steps)
        used += [row.pk for row in here if row.old != end]
        if chain is None:
            moves.append(RefMove(repo, name, start, end, last.get((name, end))))
            continue
        rows = [step.of for step in chain if isinstance(step.of, PushJournal)]
        moves += [move_of(row, repo) for row in rows]
        used += [row.pk for row in rows]
    PushJournal.objects.filter(pk__in=used).delete()
    return moves


def stored_heads(repo: Repo, names: Collection[str]) -> dict[str, str]:
    """Full name -> stored head of these refs; of all of them where a query cannot name so many."""
    refs = repo.refs.all() if len(names) > MOST_NAMED else repo.refs.filter(full_name__in=names)
    return dict(refs.values_list("full_name", "sha"))


def move_of(row: PushJournal, repo: Repo) -> RefMove:
    """The step that a journal row foretold."""
    return RefMove(repo, row.full_name, row.old, row.new, row.actor)


def apply_moves(repo: Repo, moves: Sequence[RefMove]) -> None:
    """Store the heads, let the pulls follow, and write the events: of the moves, then of the pulls.

    Call it inside a transaction that holds the repository's lock. Followers lock rows of theirs,
    so they come before the first event, which takes the event lock.
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
    later = [write for follower in followers() for write in follower.follow(repo, moves)]
    for move in moves:
        record(move.kind, actor=move.actor, about=move, data=move_data(move))
    for write in later:
        write()


def store_heads(repo: Repo, moves: Sequence[RefMove]) -> None:
    """Keep where each ref ends after all moves."""
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


def prepare(repo: Repo, moves: Sequence[RefMove]) -> None:
    """Ask git beforehand what `apply_moves` will want to know: answers about shas are kept, so
    that the lock waits for no git.

    A move that git has refused may name objects that never arrived; then nobody will ask again.
    """
    for move in moves:
        with suppress(GitError):
            move_data(move)
    for follower in followers():
        follower.prepare(repo, moves)


def move_data(move: RefMove) -> dict[str, object]:
    """The event's data: before, after, and for a moved branch how (behaviour.md §5)."""
    data: dict[str, object] = {
        "before": None if move.old == ZERO else move.old,
        "after": None if move.new == ZERO else move.new,
    }
    if move.is_branch and ZERO not in (move.old, move.new):
        distance = cache.distance(move.repo.git, move.old, move.new)
        data["forced"] = distance.lost > 0
        data["commit_count"] = distance.gained
    return data


def followers() -> list[ModuleType]:
    """Who looks at a push: `prepare(repo, moves)` before the lock, `follow(repo, moves)` in it,
    which returns what writes its events.
    """
    return [import_module(name) for name in settings.AFTER_PUSH]
