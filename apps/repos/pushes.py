"""Writes what git has moved into the database: stored heads, events, pulls.

A push: `open_journal`, then git moves the refs, then `settle`, some hundred refs at a time. A merge
moves its one ref under the repository's lock and ends in `apply_moves` as well. Should a process
die in between, `settle` or `reconcile` follow up from the journal. All lock the repository.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, cast

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.core.locks import lock
from apps.events.record import Change, record_all
from apps.git.facts import GitFacts
from apps.git.history import distances
from apps.git.repo import Distance, GitRepo
from apps.git.run import SERVICE_LIMITS, GitError
from apps.repos.commits import seek_commits
from apps.repos.models import BRANCHES, PushJournal, Ref, Repo
from apps.repos.rules import ZERO, RefMove, longest_chain
from apps.repos.tips import known_columns, learn_tips, store_refs

BATCH = 300
"""Refs that are settled in one transaction: nobody waits longer than that for a large push."""
MOST_NAMED = 500
"""Refs that one query names; past that all of a repository are read."""
UNEXPLAINED = (
    "%s: %s is at %s on the disk and %s is stored, and no push explains the difference: nothing is "
    "written down. If the disk is right, run manage.py reconcile."
)
LONGEST_PUSH = dt.timedelta(seconds=2 * SERVICE_LIMITS.deadline)
logger = logging.getLogger(__name__)


def open_journal(*, actor: User, repo: Repo, moves: Iterable[tuple[str, str, str]]) -> uuid.UUID:
    """Store `(full_name, old, new)` moves before git may carry them out; returns the push's id."""
    push = uuid.uuid4()
    rows = (
        PushJournal(repo=repo, push=push, actor=actor, full_name=name, old=old, new=new)
        for name, old, new in moves
    )
    PushJournal.objects.bulk_create(rows, batch_size=1000)
    return push


def settle(*, repo: Repo, push: uuid.UUID, own: Sequence[RefMove] = ()) -> None:
    """Bring rows and events up to what git has, and delete this push's journal.

    Each journal step becomes the event of its own actor, so that two pushes which finished close
    together keep their order and their people. `own`: the steps of this push, as its process
    remembers them. Those in the journal may be fewer: another push removes steps that do not start
    at the ref's current commit, and the ref may return to where such a step starts.

    Many refs are settled in batches. Should the process die between two, the journal explains the
    rest. What other pushes have left is settled as well, if all of it fits into one batch; else it
    is the worker's.
    """
    own = own or [move_of(row, repo) for row in journal_of(repo).filter(push=push)]
    steps = defaultdict[str, list[RefMove]](list)
    for move in own:
        steps[move.full_name].append(move)
    others = journal_of(repo).exclude(push=push).values_list("full_name", flat=True)[: BATCH + 1]
    known = [*dict.fromkeys(others), *steps]
    for names in batches(repo, known if len(known) <= BATCH else steps):
        these = [move for name in names for move in steps.get(name, ())]
        settle_refs(repo, names, these, over=Q(push=push))


def reconcile(*, repo: Repo, believing: bool = True) -> int:
    """Bring rows and events up to what git has, whoever moved it; returns how many moves it found.

    The journal says who. Steps that git has not carried out stay while their push may still be
    under way, and are dropped after that. `believing`: a move that nothing explains is written down
    as well. It is for people who have looked at the disk: see `is_believed`.
    """
    over = Q(created_at__lt=timezone.now() - LONGEST_PUSH)
    present, stored = repo.git.refs(), dict(repo.refs.values_list("full_name", "sha"))
    changed = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
    names = [*journal_of(repo).values_list("full_name", flat=True), *changed]
    some = batches(repo, names)
    return sum(settle_refs(repo, one, (), over, believing=believing) for one in some)


def journal_of(repo: Repo) -> QuerySet[PushJournal]:
    """The steps in a repository's journal, in their order."""
    return PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")


def batches(repo: Repo, names: Iterable[str]) -> list[list[str]]:
    """These refs, each once, in lists of `BATCH`; one list at least.

    The first list has the default branch, or an empty repository would get another one, and all
    that has to be settled in one transaction.
    """
    each = list(dict.fromkeys(names))
    if len(each) <= BATCH:
        return [each]
    first = {BRANCHES + repo.default_branch}.union(
        *(follower.together(repo, each) for follower in followers())
    )
    each.sort(key=lambda name: name not in first)
    size = max(BATCH, len(first.intersection(each)))
    rest = range(size, len(each), BATCH)
    return [each[:size], *(each[start : start + BATCH] for start in rest)]


def settle_refs(
    repo: Repo, names: list[str], own: Sequence[RefMove], over: Q, *, believing: bool = False
) -> int:
    """Settle these refs in one transaction; returns how many moves that were.

    `over`: the journal rows of these refs that go, whatever git has done. `believing`: see
    `reconcile`.
    """
    journal = journal_of(repo).filter(full_name__in=names)
    facts = read_facts(repo, find_moves(repo, names, journal, own, lambda _: True).moves)
    with transaction.atomic():
        lock(repo)
        found = find_moves(
            repo, names, journal.all(), own, lambda move: believing or is_believed(move, facts)
        )
        journal.filter(Q(pk__in=found.used) | over).delete()
        if found.overtaken:
            journal.filter(pk__in=found.overtaken).update(is_overtaken=True)
        apply_moves(repo, found.moves, facts)
    return len(found.moves)


@dataclass
class Found:
    """The moves that git has made, the ids of the journal rows that are of no more use, and of
    those that have been overtaken. `doubted`: moves that the disk shows and that are not believed.
    """

    moves: list[RefMove] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    overtaken: list[int] = field(default_factory=list)
    doubted: list[RefMove] = field(default_factory=list)


def find_moves(
    repo: Repo,
    names: Collection[str],
    journal: Iterable[PushJournal],
    own: Sequence[RefMove],
    believe: Callable[[RefMove], bool],
) -> Found:
    """The steps of these refs from the stored head to git's present value.

    Their rows have been used, and so have those of the same people for the same steps: they are of
    a push that was cut off and sent again. Other rows that do not start at the present value are
    overtaken: their push may still be under way, and git may move the ref back. Where no chain of
    rows leads to the present value, it is one step, by who wanted that value, if overtaken steps or
    those of `own` lead there or `believe` says so. If not, the rows of that ref stay as they are.
    """
    rows = defaultdict[str, list[PushJournal]](list)
    for row in journal:
        rows[row.full_name].append(row)
    known = [*(move_of(row, repo) for some in rows.values() for row in some), *own]
    last = {(move.full_name, move.new): move.actor for move in known}
    present, stored = repo.git.some_refs(names), stored_heads(repo, names)
    found = Found()
    for name in names:
        start, end = stored.get(name, ZERO), present.get(name, ZERO)
        to_come = [row for row in rows[name] if not row.is_overtaken]
        chain = longest_chain(start, end, to_come)
        if chain is None:
            move = RefMove(repo, name, start, end, last.get((name, end)))
            if not (is_explained(move, known) or believe(move)):
                logger.error(UNEXPLAINED, repo.uuid, name, end, start)
                found.doubted.append(move)
                continue
            found.moves.append(move)
        steps = [move_of(row, repo) for row in chain or []]
        found.moves += steps
        made = set(steps)
        used = {row.pk for row in to_come if move_of(row, repo) in made}
        found.used += used
        found.overtaken += [row.pk for row in to_come if row.old != end and row.pk not in used]
    return found


def is_explained(move: RefMove, steps: Iterable[RefMove]) -> bool:
    """Whether steps of this ref that somebody has announced lead there, in whatever order."""
    of_ref = [
        PushJournal(old=one.old, new=one.new) for one in steps if one.full_name == move.full_name
    ]
    return longest_chain(move.old, move.new, of_ref) is not None


def is_believed(move: RefMove, facts: GitFacts) -> bool:
    """Whether a move that no steps explain is written down because the disk shows it.

    A file system that several nodes share may show one of them what was there some time ago. So it
    must not take a commit from the ref, nor bring back one that was deleted unless somebody has
    announced that value.
    """
    if move.old == ZERO:
        return move.actor is not None
    distance = None if move.new == ZERO else distance_of(move, facts)
    return distance is not None and distance.lost == 0


def is_doubted(repo: Repo, full_name: str) -> bool:
    """Whether the disk shows a value of this ref that `settle` would not write down."""
    journal, facts = journal_of(repo).filter(full_name=full_name), GitFacts()
    found = find_moves(repo, [full_name], journal, (), lambda move: is_believed(move, facts))
    return bool(found.doubted)


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
    store_heads(repo, moves, facts)
    branches = [move.name for move in moves if move.is_branch and move.new != ZERO]
    if repo.is_empty and branches:
        repo.is_empty = False
        if repo.default_branch not in branches:
            repo.default_branch = branches[0]
            repo.git.set_head_branch(repo.default_branch)
    repo.save(update_fields=["pushed_at", "is_empty", "default_branch"])
    later = [event for one in followers() for event in one.follow(repo, moves, facts)]
    seek_commits(repo.pk)
    events = [Change(one.kind, one.actor, one, move_data(one, facts)) for one in moves]
    record_all([*events, *later])


def store_heads(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Store where each ref is after all moves, and what that leads to."""
    last = last_moves(moves)
    kept = [move for move in last if move.new != ZERO]
    gone = [move.full_name for move in last if move.new == ZERO]
    if gone:
        repo.refs.filter(full_name__in=gone).delete()
    store_refs(
        Ref(
            repo=repo,
            full_name=move.full_name,
            sha=move.new,
            pushed_by=move.actor,
            **known_columns(repo.git, move.new, facts),
        )
        for move in kept
    )


def last_moves(moves: Iterable[RefMove]) -> list[RefMove]:
    """The last step of each ref."""
    return [*{move.full_name: move for move in moves}.values()]


def read_facts(repo: Repo, moves: Sequence[RefMove], known: GitFacts | None = None) -> GitFacts:
    """Ask git all that `apply_moves` will need for these moves, so that no lock waits for git.

    What is `known` is not asked.
    """
    facts, git = known or GitFacts(), repo.git
    pushed = [(move.old, move.new) for move in moves if move.is_pushed_branch]
    compared = [one for one in pushed if not facts.knows(GitRepo.distance, git, *one)]
    told = distances(git, compared)
    for old, new in compared:
        if distance := told.get((old, new)):
            facts.know(distance, GitRepo.distance, git, old, new)
        else:
            facts.know(None, distance_if_told, git, old, new)
    heads = [(move.full_name, move.new) for move in last_moves(moves) if move.new != ZERO]
    with suppress(GitError):  # else the worker asks
        learn_tips(git, heads, facts)
    for follower in followers():
        follower.read(repo, moves, facts)
    return facts


def distance_if_told(git: GitRepo, old: str, new: str) -> Distance | None:
    """None where git cannot compare the two, as after it has lost one of them."""
    with suppress(GitError):
        return git.distance(old, new)
    return None


def move_data(move: RefMove, facts: GitFacts) -> dict[str, object]:
    """The event's data: before, after, and for a branch that moved how many commits it gained and
    whether it lost any; None for these two where git cannot tell.
    """
    data: dict[str, object] = {
        "before": None if move.old == ZERO else move.old,
        "after": None if move.new == ZERO else move.new,
    }
    if move.is_pushed_branch:
        distance = distance_of(move, facts)
        data["forced"] = None if distance is None else distance.lost > 0
        data["commit_count"] = None if distance is None else distance.gained
    return data


def distance_of(move: RefMove, facts: GitFacts) -> Distance | None:
    """How far a branch has moved; None where git cannot tell. git is asked once."""
    git, old, new = move.repo.git, move.old, move.new
    if facts.knows(GitRepo.distance, git, old, new):
        return facts.ask(GitRepo.distance, git, old, new)
    return facts.ask(distance_if_told, git, old, new)


class Follower(Protocol):
    """A module of `settings.AFTER_PUSH`: is called for every push and every merge."""

    def together(self, repo: Repo, names: Collection[str]) -> set[str]:
        """Those of many refs that have to be settled in one transaction; others may be too."""

    def read(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
        """Ask git what `follow` will need, before the lock; `facts` keeps the answers."""

    def follow(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
        """Write rows, under the lock and after the heads; returns the events."""


def followers() -> list[Follower]:
    """The modules of `settings.AFTER_PUSH`."""
    return [cast("Follower", import_module(name)) for name in settings.AFTER_PUSH]
