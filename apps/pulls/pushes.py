"""The push hook of pulls (`settings.AFTER_PUSH`): updates the pulls whose branches moved.

It is called for every push and every merge. `prepare` asks git before the lock; `apply` writes the
new heads, statistics and merges inside the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db.models import Q
from django.db.models.functions import Coalesce, Least
from django.utils import timezone

from apps.core.locks import lock
from apps.core.statements import Parameter, Statement, parameters
from apps.events.kinds import Kind
from apps.events.record import Change
from apps.git.cache import GitFacts
from apps.git.history import heads_sharing
from apps.git.repo import GitRepo
from apps.git.run import GitError
from apps.pulls.auto_merge import ended
from apps.pulls.following import heads_after, look_ahead, write_places
from apps.pulls.heads import (
    mark_moved,
    pull_number,
    pull_ref_moves,
    state_between,
    take_moves,
    update_refs_on_commit,
)
from apps.pulls.models import IS_ACTIVE, AutoMergeEnd, GitState, MergeAttempt, Pull, PullStatus
from apps.pulls.versions import NewVersion, new_versions, note_base, write_versions
from apps.repos.models import BRANCHES, Repo
from apps.repos.rules import ZERO, RefMove

OPEN_OR_MERGING = IS_ACTIVE | Q(attempt__isnull=False)
Tips = dict[str, str]
"""Full name of a branch -> its stored head."""


def linked_refs(repo: Repo, names: Collection[str]) -> set[str]:
    """The sources and targets of pulls of which both move. The outcome depends on both moves."""
    pulls = repo.pulls.filter(OPEN_OR_MERGING, source_repo=repo)
    branches = pulls.values_list("source_branch", "target_branch").distinct()
    pairs = ({BRANCHES + source, BRANCHES + target} for source, target in branches)
    moved = set(names)
    return set[str]().union(*(pair for pair in pairs if pair <= moved))


def prepare(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Ask git the questions of `apply`, so that no lock waits for git. Changes no row."""
    for target, pull_moves in pull_ref_moves(repo, moves):
        prepare(target, take_moves(repo, target, pull_moves), facts)
    pulls = affected_pulls(repo, moves)
    tips = tips_after(repo, pulls, moves)
    base_only = with_new_base_only(pulls, moves, facts)
    pushed = []
    for pull in pulls:
        if pull.pk not in base_only:
            change = change_of(pull, moves, tips, facts)
            pushed += [(pull, heads_after(change.versions))] if change.versions else []
    look_ahead(pushed, repo.git, facts)


def apply(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
    """Update the open and draft pulls whose branches moved; return their events.

    Each move of a head is a `pull-pushed`; a move of a target is no event. A pull is merged when
    its target comes to contain its head. Locks the pulls, by number. The caller holds the
    repository's lock and has stored the new heads.
    """
    events = []
    for target, pull_moves in pull_ref_moves(repo, moves):
        lock(target)
        events += apply(target, take_moves(repo, target, pull_moves), facts)
        mark_moved(repo, target, pull_moves)
    pulls = affected_pulls(repo, moves, locking=True)
    tips = tips_after(repo, pulls, moves)
    base_only = with_new_base_only(pulls, moves, facts)
    for name in {pull.target_ref for pull in pulls if pull.pk in base_only}:
        ids = [pull.pk for pull in pulls if pull.pk in base_only and pull.target_ref == name]
        now = timezone.now()
        # A pull that is already due keeps its turn: with frequent pushes it would else never come.
        due_at = Least(Coalesce("conflict_due_at", now), now)
        repo.pulls.filter(pk__in=ids).update(
            base_sha=tips[name], has_conflict=None, conflict_due_at=due_at
        )
    for pull in pulls:
        if pull.pk not in base_only:
            events += write_change(pull, moves, tips, facts)
    return events


def affected_pulls(repo: Repo, moves: Sequence[RefMove], *, locking: bool = False) -> list[Pull]:
    """The pulls from or into these branches, by number, with their threads and merge attempts.

    A closed pull only if it has a merge attempt, which git may have carried out before it died.
    """
    names = _padded([move.name for move in moves if move.is_branch])
    numbers = _padded([pull_number(move.full_name) for move in moves])
    statement = _affected(len(names), len(numbers), locking=locking)
    pulls: list[Pull] = statement.all(repo=repo.pk, names=names, numbers=numbers)
    for pull in pulls:
        pull.repo = repo
    return pulls


def _padded(values: Sequence[str | int | None]) -> list[str | int | None]:
    """The values that are not None, padded with None (equal to nothing in SQL) to a power of two,
    or beyond 256 to a multiple of 512, which keeps the number of SQL texts small.
    """
    present = [value for value in values if value is not None]
    size = 1 << max(0, len(present) - 1).bit_length()
    if len(present) > 256:
        size = len(present) + -len(present) % 512
    return [*present, *[None] * (size - len(present))]


@cache
def _affected(names: int, numbers: int, *, locking: bool) -> Statement:
    branches = parameters("names", names)
    either = Q(source_repo=Parameter("repo"), source_branch__in=branches)
    either |= Q(target_branch__in=branches) | Q(number__in=parameters("numbers", numbers))
    rows = Pull.objects.filter(OPEN_OR_MERGING, either)
    rows = rows.filter(repo=Parameter("repo")).order_by("number")
    rows = rows.select_related("thread", "attempt__actor")
    if locking:
        rows = rows.select_for_update(of=("self",))
    return Statement(rows.all)


def tips_after(repo: Repo, pulls: Iterable[Pull], moves: Sequence[RefMove]) -> Tips:
    """The heads of these pulls' targets after all moves; one query, or none if all targets move."""
    tips: Tips = {move.full_name: move.new for move in moves}
    unmoved = {pull.target_ref for pull in pulls}.difference(tips)
    if unmoved:
        tips |= repo.refs.filter(full_name__in=unmoved).values_list("full_name", "sha")
    return {name: sha for name, sha in tips.items() if sha != ZERO}


def with_new_base_only(
    pulls: Sequence[Pull], moves: Sequence[RefMove], facts: GitFacts
) -> set[int]:
    """The ids of the pulls of which only the base changes: their target has gained commits, but
    none that their head contains. One git process for all pulls of a target, which may have many.
    """
    moved = {move.full_name for move in moves}
    ids: set[int] = set()
    for name in moved.intersection(pull.target_ref for pull in pulls):
        steps = [move for move in moves if move.full_name == name]
        into = [pull for pull in pulls if pull.target_ref == name and is_at(pull, steps[0].old)]
        into = [pull for pull in into if pull.source_ref not in moved]
        with suppress(GitError):  # if git cannot tell, each pull is looked at by itself
            if into and only_gains_commits(steps, facts):
                shas = frozenset(str(pull.head_sha) for pull in into)
                git, old, new = steps[0].repo.git, steps[0].old, steps[-1].new
                sharing = facts.ask(heads_sharing, git, old, new, shas)
                ids |= {pull.pk for pull in into if pull.head_sha not in sharing}
    return ids


def is_at(pull: Pull, base: str) -> bool:
    """Whether the pull is active, has a head and this base, and has no merge attempt."""
    is_idle = pull.is_active and getattr(pull, "attempt", None) is None
    return is_idle and pull.head_sha is not None and pull.base_sha == base


def only_gains_commits(steps: Sequence[RefMove], facts: GitFacts) -> bool:
    """Whether these moves of a branch lose no commits; `GitError`."""
    return all(
        ZERO not in (step.old, step.new)
        and not facts.ask(GitRepo.distance, step.repo.git, step.old, step.new).lost
        for step in steps
    )


@dataclass(frozen=True)
class MergedByMove:
    """The move by which a target came to contain a pull's head."""

    move: RefMove
    head: str
    attempt: MergeAttempt | None
    """The merge that made this move; None for a push."""


@dataclass(frozen=True)
class PullChange:
    """The effect of moves on one pull."""

    state: GitState
    """The state after the moves."""
    pushed: list[RefMove]
    """The moves of the source that change the head."""
    merged: MergedByMove | None
    versions: list[NewVersion]
    """One for each of `pushed`, and another if an interrupted merge used an earlier head."""


def change_of(pull: Pull, moves: Sequence[RefMove], tips: Tips, facts: GitFacts) -> PullChange:
    """The effect of these moves on this pull. Asks git, and writes nothing."""
    merged = find_merging_move(pull, moves, facts)
    pushed = head_moves(pull, moves, merged.head if merged else None)
    head = pushed[-1].new if pushed else pull.head_sha
    base = tips.get(pull.target_ref) if head else None
    if merged is not None:
        head, base = merged.head, merged.move.old
    new_heads = [(move.new, move.actor.pk if move.actor else None) for move in pushed]
    if head is not None and head != (pushed[-1].new if pushed else pull.head_sha):
        new_heads.append((head, None))  # an interrupted merge has merged an earlier head
    versions = new_versions(pull, base, new_heads, facts)
    return PullChange(state_between(pull, base, head, facts), pushed, merged, versions)


def head_moves(pull: Pull, moves: Sequence[RefMove], last: str | None) -> list[RefMove]:
    """The moves of the source branch that change the head, until the head is `last`."""
    changing: list[RefMove] = []
    head = pull.head_sha
    for move in moves:
        if head is not None and head == last:
            break
        if move.full_name == pull.source_ref and move.new not in (ZERO, head):
            changing.append(move)
            head = move.new
    return changing


def find_merging_move(pull: Pull, moves: Sequence[RefMove], facts: GitFacts) -> MergedByMove | None:
    """The first move that merges the pull, by the head before it or one of the same push; None if
    no move does. A push that creates the target merges no pull.
    """
    head = pull.head_sha
    for index, move in enumerate(moves):
        if move.full_name == pull.source_ref and move.new != ZERO:
            head = move.new
        if move.full_name == pull.target_ref and ZERO not in (move.old, move.new):
            later = [other.new for other in moves[index:] if other.full_name == pull.source_ref]
            merged = merged_by(pull, move, [*reversed(later), head], facts)
            if merged is not None:
                return merged
    return None


def merged_by(
    pull: Pull, move: RefMove, heads: Iterable[str | None], facts: GitFacts
) -> MergedByMove | None:
    """The merge that this move of the target makes: as planned by an attempt, or of one of these
    heads.
    """
    attempt: MergeAttempt | None = getattr(pull, "attempt", None)
    if attempt is not None and gains(move, attempt.result_sha, facts):
        return MergedByMove(move, attempt.head_sha or move.new, attempt)
    if not pull.is_active:
        return None
    merges = (MergedByMove(move, head, None) for head in heads if head and gains(move, head, facts))
    return next(merges, None)


def gains(move: RefMove, sha: str | None, facts: GitFacts) -> bool:
    """Whether the branch contains this commit after the move, and did not before."""
    if sha in (None, ZERO):
        return False
    git, commit = move.repo.git, str(sha)
    try:
        if commit == move.new:  # the event contains the distance, so git is asked for it anyway
            return facts.ask(GitRepo.distance, git, move.old, move.new).gained > 0
        contained = facts.ask(GitRepo.is_ancestor, git, commit, move.new)
        return contained and not facts.ask(GitRepo.is_ancestor, git, commit, move.old)
    except GitError:  # git may have removed the commit of a merge that was never carried out
        return False


def write_change(pull: Pull, moves: Sequence[RefMove], tips: Tips, facts: GitFacts) -> list[Change]:
    """Write the effect of the moves on one pull; return its events."""
    change = change_of(pull, moves, tips, facts)
    if not pull.is_active and change.merged is None:
        return []
    before, had_base = pull.head_sha, pull.base_sha is not None
    first = pull.last_version + 1
    pull.set_git_state(change.state)
    pull.last_version += len(change.versions)
    if change.pushed:
        pull.head_pushed_by = change.pushed[-1].actor
    outdated = write_places(pull, heads_after(change.versions), facts) if change.versions else 0
    events = []
    for version, move in enumerate(change.pushed, first):
        # Comments are looked for at the last head only.
        count = outdated if move is change.pushed[-1] else 0
        events.append(pushed_event(pull, move, before, version, count))
        before = move.new
    if change.merged is not None:
        events.append(set_merged(pull, change.merged))
        pull.set_auto_merge(None)
    ends = end_of_auto_merge(pull, moves, change)
    if change.pushed or ends:
        pull.touch()
    pull.save()
    versions = write_versions(pull, change.versions)
    if not had_base:
        note_base(pull)
    if any(move.full_name == pull.source_ref for move in moves) or change.merged is not None:
        update_refs_on_commit(pull, versions)
    return [*events, *ends]


def end_of_auto_merge(pull: Pull, moves: Sequence[RefMove], change: PullChange) -> list[Change]:
    """End the auto-merge of a pull that has a new head or has lost its target. A target that gains
    commits ends none: the worker tries the merge again when it has checked for conflicts.
    """
    if change.pushed:
        return ended(pull, AutoMergeEnd.PUSHED, change.pushed[-1].actor)
    lost = [move for move in moves if move.full_name == pull.target_ref and move.new == ZERO]
    if lost and change.state.base is None:
        return ended(pull, AutoMergeEnd.TARGET_DELETED, lost[-1].actor)
    return []


def pushed_event(
    pull: Pull, move: RefMove, before: str | None, version: int, outdated: int
) -> Change:
    """The event of a new head. `before` can differ from the move's `old`, because a deleted branch
    leaves the pull its head. `outdated`: the comments on lines that the head makes outdated.
    """
    shas = {"before": before, "after": move.new, "head_sha": move.new}
    numbers = {"version": version, "comments_outdated": outdated}
    data = {**pull.event_heads(), **shas, **numbers}
    return Change(Kind.PULL_PUSHED, move.actor, pull, data)


def set_merged(pull: Pull, merged: MergedByMove) -> Change:
    """Mark the pull as merged, without saving it; return the event. Locks the thread."""
    attempt = merged.attempt
    pull.merged_by = merged.move.actor
    pull.merge_commit_sha = merged.move.new
    if attempt is not None:
        pull.merged_by, pull.merge_strategy = attempt.actor, attempt.strategy
        pull.merge_commit_sha = attempt.result_sha
        MergeAttempt.objects.filter(pk=attempt.pk).delete()
    elif getattr(pull, "attempt", None) is not None:
        MergeAttempt.without_plan(timezone.now()).filter(pull=pull).delete()
    pull.merged_at = timezone.now()
    lock(pull.thread)
    pull.set_status(PullStatus.MERGED)
    pull.updated_at = pull.thread.last_activity_at
    data: dict[str, Any] = {
        "head_sha": pull.head_sha,
        "merge_commit_sha": pull.merge_commit_sha,
        "merge_strategy": pull.merge_strategy,
        "target_branch": pull.target_branch,
    }
    return Change(Kind.PULL_MERGED, pull.merged_by, pull, data)
