"""Records the moves of refs in the database: stored heads, events, pulls.

A push calls `open_journal`, lets git move the refs, and calls `settle`, which records some hundred
refs at a time. A merge moves one ref under the repository's lock and calls `apply_moves`. If a
process dies in between, `settle` or `reconcile` complete the work from the journal.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic, sleep
from typing import Protocol, cast

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower
from django.utils import timezone

from apps.accounts.models import User
from apps.core.locks import lock
from apps.events.record import Change, record_all
from apps.git.cache import GitFacts
from apps.git.history import distances
from apps.git.repo import Distance, GitRepo
from apps.git.run import SERVICE_LIMITS, GitError
from apps.repos.commits import seek_commits
from apps.repos.models import BRANCHES, PushJournal, Ref, Repo
from apps.repos.models.ref import twin
from apps.repos.rules import ZERO, RefMove, find_chain
from apps.repos.tips import known_columns, learn_tips, store_refs

BATCH = 300
"""Most refs settled in one transaction, so that a large push does not block others for long."""
MOST_NAMED = 500
"""Most refs that one query names. For more, all refs of the repository are read."""
UNEXPLAINED = (
    "%s: %s is at %s on the disk but stored at %s, and no push explains the difference: nothing is "
    "recorded. If the disk is right, run manage.py reconcile."
)
REPORT_SECONDS, REPORT_PAUSE = 5.0, 0.02
"""Seconds to wait for git's report about a move that the disk shows, and between two looks."""
LONGEST_PUSH = dt.timedelta(seconds=2 * SERVICE_LIMITS.deadline)
logger = logging.getLogger(__name__)


def open_journal(*, actor: User, repo: Repo, moves: Iterable[tuple[str, str, str]]) -> uuid.UUID:
    """Store the `(full_name, old, new)` moves of a push before git makes them; return its id."""
    push = uuid.uuid4()
    rows = (
        PushJournal(repo=repo, push=push, actor=actor, full_name=name, old=old, new=new)
        for name, old, new in moves
    )
    PushJournal.objects.bulk_create(rows, batch_size=1000)
    return push


def settle(
    *,
    repo: Repo,
    push: uuid.UUID,
    own: Sequence[RefMove] = (),
    reported: Mapping[str, bool] | None = None,
) -> set[str]:
    """Record the moves that git has made, and delete this push's journal. Return the refs of this
    push whose value on the disk could not be recorded: the push must not be acknowledged.

    Each journal step becomes an event of its own actor, so that concurrent pushes keep their order
    and their actors. `own`: the steps of this push, as its process remembers them. The journal may
    have fewer: another push uses an equal step of the same actor for the same move. `reported`: the
    refs of this push in git's report, and whether git has moved them. The journal gets this first,
    without a lock, so that other pushes know it.

    Many refs are settled in batches. If the process dies between two of them, the journal explains
    the rest. Steps of other pushes are settled too if everything fits into one batch; otherwise
    they are left to the worker.
    """
    reported = reported or {}
    mark_steps(push, reported)
    own = [move for move in own if reported.get(move.full_name, True)]
    own = own or [move_of(row, repo) for row in journal_of(repo).filter(push=push)]
    steps = defaultdict[str, list[RefMove]](list)
    for move in own:
        steps[move.full_name].append(move)
    others = journal_of(repo).exclude(push=push).values_list("full_name", flat=True)[: BATCH + 1]
    refs = [*dict.fromkeys(others), *steps]
    doubted = set[str]()
    for names in batches(repo, refs if len(refs) <= BATCH else steps):
        moves = [move for name in names for move in steps.get(name, ())]
        result = settle_refs(repo, names, moves, over=Q(push=push), waits=bool(reported))
        doubted |= {move.full_name for move in result.doubted}
    return doubted & steps.keys()


def mark_steps(push: uuid.UUID, reported: Mapping[str, bool]) -> None:
    """Delete the steps of a push that git has refused, and mark the others as made."""
    steps = PushJournal.objects.filter(push=push)
    refused = [name for name, is_moved in reported.items() if not is_moved]
    for start in range(0, len(refused), BATCH):
        steps.filter(full_name__in=refused[start : start + BATCH]).delete()
    if len(refused) < len(reported):
        steps.update(is_made=True)


def reconcile(*, repo: Repo, believing: bool = True) -> int:
    """Record all moves that git has made in a repository; return their number.

    The actors come from the journal. Steps that git has not made stay as long as their push may be
    in progress, and are dropped later. `believing`: also record moves that no step explains. Use it
    only after a person has checked the disk: see `is_believed`.
    """
    over = Q(created_at__lt=timezone.now() - LONGEST_PUSH)
    present, stored = repo.git.refs(), dict(repo.refs.values_list("full_name", "sha"))
    changed = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
    names = [*journal_of(repo).values_list("full_name", flat=True), *changed]
    results = [
        settle_refs(repo, batch, (), over, believing=believing, waits=not believing)
        for batch in batches(repo, names)
    ]
    return sum(len(result.moves) for result in results)


def journal_of(repo: Repo) -> QuerySet[PushJournal]:
    """The steps in a repository's journal, oldest first."""
    return PushJournal.objects.filter(repo=repo).select_related("actor").order_by("id")


def batches(repo: Repo, names: Iterable[str]) -> list[list[str]]:
    """The refs without duplicates, in lists of at most `BATCH`; at least one list.

    The first list contains the default branch, because an empty repository takes its default branch
    from the first batch. It also contains all refs that must be settled in one transaction, and is
    longer than `BATCH` if it has to be.
    """
    refs = list(dict.fromkeys(names))
    if len(refs) <= BATCH:
        return [refs]
    first = {BRANCHES + repo.default_branch}.union(
        *(hook.linked_refs(repo, refs) for hook in push_hooks())
    )
    refs.sort(key=lambda name: name not in first)
    size = max(BATCH, len(first.intersection(refs)))
    rest = range(size, len(refs), BATCH)
    return [refs[:size], *(refs[start : start + BATCH] for start in rest)]


def settle_refs(
    repo: Repo,
    names: list[str],
    own: Sequence[RefMove],
    over: Q,
    *,
    waits: bool,
    believing: bool = False,
) -> FoundMoves:
    """Settle these refs in one transaction, under the repository's lock; return the moves.

    `over`: the condition for journal rows that are deleted even if git has not made their step.
    `believing`: see `reconcile`.

    With `waits`, if the moves depend on reports of git that other pushes have not stored yet, it
    waits for these: they come within moments, unless a process has died.
    """
    # A transaction would keep its locks meanwhile.
    waits = waits and not connection.in_atomic_block
    latest = monotonic() + REPORT_SECONDS
    while True:
        result = settle_if_reported(repo, names, own, over, believing=believing, waits=waits)
        if result is not None:
            return result
        sleep(REPORT_PAUSE)
        waits = monotonic() < latest


def settle_if_reported(
    repo: Repo, names: list[str], own: Sequence[RefMove], over: Q, *, believing: bool, waits: bool
) -> FoundMoves | None:
    """Settle these refs as `settle_refs` does. With `waits`, None if reports are missing."""
    journal = journal_of(repo).filter(full_name__in=names)
    expected = find_moves(repo, names, journal, own, lambda _: True)
    if waits and expected.needs_reports:
        return None
    facts = read_facts(repo, expected.moves)
    with transaction.atomic():
        lock(repo)
        result = find_moves(
            repo, names, journal.all(), own, lambda move: believing or is_believed(move, facts)
        )
        if waits and result.needs_reports:
            return None
        journal.filter(Q(pk__in=result.used) | over).delete()
        if result.overtaken:
            journal.filter(pk__in=result.overtaken).update(is_overtaken=True)
        apply_moves(repo, result.moves, facts)
    return result


@dataclass
class FoundMoves:
    """The moves that git has made, and the ids of used and of overtaken journal rows.

    `doubted`: moves that the disk shows or git has reported, but that are not recorded.
    `needs_reports`: whether reports of git about other pushes may change the moves: a step without
    one is used, or steps of this push fit nowhere.
    """

    moves: list[RefMove] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    overtaken: list[int] = field(default_factory=list)
    doubted: list[RefMove] = field(default_factory=list)
    needs_reports: bool = False

    def use(
        self, repo: Repo, chain: Sequence[PushJournal], to_come: Sequence[PushJournal], end: str
    ) -> None:
        """Add the steps of a chain, and the rows that it overtakes."""
        self.moves += [move_of(row, repo) for row in chain]
        self.needs_reports |= any(row.pk and not row.is_made for row in chain)
        used = {row.pk for row in chain if row.pk}
        self.used += used
        self.overtaken += [row.pk for row in to_come if row.old != end and row.pk not in used]

    def doubt(self, steps: Sequence[RefMove]) -> None:
        """Doubt steps of this push, unless a report shows where they fit."""
        self.doubted += steps
        self.needs_reports |= bool(steps)


def find_moves(
    repo: Repo,
    names: Collection[str],
    journal: Iterable[PushJournal],
    own: Sequence[RefMove],
    believe: Callable[[RefMove], bool],
) -> FoundMoves:
    """The steps of each ref from its stored head to git's current value.

    A chain of journal rows from the one to the other is used. Other rows that do not start at the
    current value are overtaken: git may still move the ref back. Without a chain, overtaken and
    `own` steps are used too. Without any, the move is one step by the actor whose step ends at the
    current value, if `believe` returns True. Otherwise it is doubted, and the rows of the ref stay
    unchanged. An `own` step that git has reported but that fits nowhere is doubted too.
    """
    rows = defaultdict[str, list[PushJournal]](list)
    for row in journal:
        rows[row.full_name].append(row)
    announced = [*(move_of(row, repo) for of_ref in rows.values() for row in of_ref), *own]
    actors = {(move.full_name, move.new): move.actor for move in announced}
    present, stored = repo.git.some_refs(names), stored_heads(repo, names)
    result = FoundMoves()
    for name in names:
        start, end = stored.get(name, ZERO), present.get(name, ZERO)
        to_come = [row for row in rows[name] if row.is_made or not row.is_overtaken]
        every = [*rows[name], *without_rows(own, name, rows[name])]
        chain = chain_of_ref(start, end, to_come, every)
        if chain is None:
            result.needs_reports |= bool(own)
            move = RefMove(repo, name, start, end, actors.get((name, end)))
            if not believe(move):
                logger.error(UNEXPLAINED, repo.uuid, name, end, start)
                result.doubted.append(move)
                continue
            result.moves.append(move)
        result.use(repo, chain or [], to_come, end)
        if chain is not None:
            missed = [move_of(row, repo) for row in to_come if row.is_made and row not in chain]
            result.doubt([move for move in missed if move in own])
    return result


def chain_of_ref(
    start: str, end: str, to_come: Sequence[PushJournal], announced: Sequence[PushJournal]
) -> list[PushJournal] | None:
    """The chain of steps that are to come; without one, of all announced steps."""
    made = {row.pk for row in to_come if row.is_made}
    chain = find_chain(start, end, to_come, made)
    return find_chain(start, end, announced, made) if chain is None else chain


def without_rows(
    own: Iterable[RefMove], name: str, rows: Iterable[PushJournal]
) -> list[PushJournal]:
    """The `own` steps of this ref that have no row any more, as rows."""
    steps = {(row.actor_id, row.old, row.new) for row in rows}
    return [
        PushJournal(repo=move.repo, actor=move.actor, full_name=name, old=move.old, new=move.new)
        for move in own
        if move.full_name == name
        and move.actor is not None
        and (move.actor.pk, move.old, move.new) not in steps
    ]


def is_believed(move: RefMove, facts: GitFacts) -> bool:
    """Whether to record a move that no steps explain, only because the disk shows it.

    A file system shared by several nodes may show one of them an old state. Therefore the move must
    not remove commits from the ref, and may create a ref only if somebody has announced its value.
    """
    if move.old == ZERO:
        return move.actor is not None
    distance = None if move.new == ZERO else distance_of(move, facts)
    return distance is not None and distance.lost == 0


def is_doubted(repo: Repo, full_name: str) -> bool:
    """Whether the disk shows a value of this ref that `settle` would not record."""
    journal, facts = journal_of(repo).filter(full_name=full_name), GitFacts()
    result = find_moves(repo, [full_name], journal, (), lambda move: is_believed(move, facts))
    return bool(result.doubted)


def stored_heads(repo: Repo, names: Collection[str]) -> dict[str, str]:
    """Full name -> stored head of these refs; of all refs if there are more than `MOST_NAMED`."""
    refs = repo.refs.all() if len(names) > MOST_NAMED else repo.refs.filter(full_name__in=names)
    return dict(refs.values_list("full_name", "sha"))


def names_in_use(repo: Repo, refs: Sequence[str]) -> set[str]:
    """The full names, in lower case, of branches and tags that have the short name of one of these
    refs of the other kind, ignoring case; also of those that the journal creates. It may contain
    others. The caller holds the repository's lock.
    """
    names = [twin(ref) for ref in refs]
    heads, steps = repo.refs.all(), journal_of(repo).exclude(new=ZERO)
    if len(names) <= MOST_NAMED:
        # The database's `Lower` may ignore the case of ASCII letters alone.
        equal = Q(full_name__in=names) | Q(folded__in=[name.lower() for name in names])
        heads = heads.alias(folded=Lower("full_name")).filter(equal)
        steps = steps.alias(folded=Lower("full_name")).filter(equal)
    queries = (rows.values_list("full_name", flat=True) for rows in (heads, steps))
    return {name.lower() for rows in queries for name in rows}


def move_of(row: PushJournal, repo: Repo) -> RefMove:
    """The step of a journal row."""
    return RefMove(repo, row.full_name, row.old, row.new, row.actor)


def apply_moves(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Store the heads, update the pulls, and write the events: of the moves, then of the pulls.

    Call it inside a transaction that holds the repository's lock, with what `read_facts` returned
    before. The hooks lock rows, so they run before the first event is written, which takes the
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
    later = [event for hook in push_hooks() for event in hook.apply(repo, moves, facts)]
    seek_commits(repo.pk)
    events = [Change(one.kind, one.actor, one, move_data(one, facts)) for one in moves]
    record_all([*events, *later])


def store_heads(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Store each ref's head after all moves, with the columns of its commit or tag."""
    last = last_moves(moves)
    remaining = [move for move in last if move.new != ZERO]
    deleted = [move.full_name for move in last if move.new == ZERO]
    if deleted:
        repo.refs.filter(full_name__in=deleted).delete()
    store_refs(
        Ref(
            repo=repo,
            full_name=move.full_name,
            sha=move.new,
            pushed_by=move.actor,
            **known_columns(repo.git, move.new, facts),
        )
        for move in remaining
    )


def last_moves(moves: Iterable[RefMove]) -> list[RefMove]:
    """The last step of each ref."""
    return [*{move.full_name: move for move in moves}.values()]


def read_facts(repo: Repo, moves: Sequence[RefMove], known: GitFacts | None = None) -> GitFacts:
    """Ask git all questions that `apply_moves` will have about these moves, before a lock is taken.

    Answers in `known` are not asked again.
    """
    facts, git = known or GitFacts(), repo.git
    pushed = [(move.old, move.new) for move in moves if move.is_pushed_branch]
    unknown = [pair for pair in pushed if not facts.knows(GitRepo.distance, git, *pair)]
    by_pair = distances(git, unknown)
    for old, new in unknown:
        if distance := by_pair.get((old, new)):
            facts.know(distance, GitRepo.distance, git, old, new)
        else:
            facts.know(None, distance_if_told, git, old, new)
    heads = [(move.full_name, move.new) for move in last_moves(moves) if move.new != ZERO]
    with suppress(GitError):  # the worker tries again
        learn_tips(git, heads, facts)
    for hook in push_hooks():
        hook.prepare(repo, moves, facts)
    return facts


def distance_if_told(git: GitRepo, old: str, new: str) -> Distance | None:
    """The distance; None if git cannot compare the two, for example because one is missing."""
    with suppress(GitError):
        return git.distance(old, new)
    return None


def move_data(move: RefMove, facts: GitFacts) -> dict[str, object]:
    """The event's data: the values before and after. For a moved branch also the number of commits
    gained and whether any were lost; None if git cannot compare the two values.
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
    """The distance that a branch has moved; None if git cannot compare. git is asked once."""
    git, old, new = move.repo.git, move.old, move.new
    if facts.knows(GitRepo.distance, git, old, new):
        return facts.ask(GitRepo.distance, git, old, new)
    return facts.ask(distance_if_told, git, old, new)


class PushHook(Protocol):
    """A module of `settings.AFTER_PUSH`. Its functions are called for every push and merge."""

    def linked_refs(self, repo: Repo, names: Collection[str]) -> set[str]:
        """The refs among `names` that must be settled in one transaction."""

    def prepare(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
        """Ask git the questions of `apply` before the lock, and store the answers in `facts`."""

    def apply(self, repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
        """Write rows, under the lock and after the heads; return the events."""


def push_hooks() -> list[PushHook]:
    """The modules of `settings.AFTER_PUSH`."""
    return [cast("PushHook", import_module(name)) for name in settings.AFTER_PUSH]


def point_head_on_commit(repo: Repo) -> None:
    """Point HEAD to the default branch once the transaction is committed. The caller saves
    `head_due` together with the branch.

    HEAD moves after the commit, because a rollback does not undo it. Until then `head_due` is True,
    so that the worker moves HEAD if the process dies or git fails.
    """
    repo.head_due = True
    # A lambda, because Django logs the name of a failed callback, and a partial has none.
    transaction.on_commit(lambda: point_head(repo), robust=True)


@transaction.atomic
def point_head(repo: Repo) -> None:
    """Lock the repository, and point HEAD to its current default branch."""
    lock(repo)
    repo.git.set_head_branch(repo.default_branch)
    if repo.head_due:
        repo.head_due = False
        repo.save(update_fields=["head_due"])
