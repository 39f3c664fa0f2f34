"""What moved branches mean for pulls: new heads and figures, and which pulls are merged by it.

`prepare` and `apply` are called for every push and every merge (`settings.AFTER_PUSH`): the first
before the lock, to ask git, the second inside the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from apps.git.facts import GitFacts
from apps.git.history import heads_sharing
from apps.git.repo import GitRepo
from apps.git.run import GitError
from apps.pulls import heads
from apps.pulls.heads import state_between, update_refs_on_commit
from apps.pulls.models import (
    IS_ACTIVE,
    GitState,
    MergeAttempt,
    Pull,
    PullStatus,
)
from apps.pulls.versions import NewVersion, new_versions, note_base, write_versions
from apps.repos.models import BRANCHES, Repo
from apps.repos.rules import ZERO, RefMove

Tips = dict[str, str]
"""Full name of a branch -> its stored head."""
WRITTEN = [
    *("head_sha", "base_sha", "head_pushed_by", "commit_count", "additions", "deletions"),
    *("changed_files", "status", "closed_at", "merged_at", "merged_by", "merge_strategy"),
    *("has_conflict", "conflict_due_at"),
    *("merge_commit_sha", "source_moved", "last_version", "updated_at"),
]


def linked_refs(repo: Repo, names: Collection[str]) -> set[str]:
    """Source and target of a pull, where both move: what happens to it follows from the two."""
    either = IS_ACTIVE | Q(attempt__isnull=False)
    pulls = repo.pulls.filter(either, source_repo=repo)
    branches = pulls.values_list("source_branch", "target_branch").distinct()
    pairs = ({BRANCHES + source, BRANCHES + target} for source, target in branches)
    moved = set(names)
    return set[str]().union(*(pair for pair in pairs if pair <= moved))


def prepare(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    """Ask git what `apply` will need, so that no lock waits for git. Changes no row."""
    for target, theirs in heads.pull_ref_moves(repo, moves):
        prepare(target, heads.take_moves(repo, target, theirs), facts)
    pulls = affected_pulls(repo, moves)
    tips = tips_after(repo, pulls, moves)
    base_only = with_new_base_only(pulls, moves, facts)
    for pull in pulls:
        if pull.pk not in base_only:
            change_of(pull, moves, tips, facts)


def apply(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
    """Update the open and draft pulls whose branches moved; returns their events.

    A head that moves is a `pull-pushed` for each step, a target that moves is no event; a pull
    whose target comes to contain its head is merged. Locks the pulls, by number. The caller holds
    the repository's lock and has stored the new heads.
    """
    elsewhere = []
    for target, theirs in heads.pull_ref_moves(repo, moves):
        lock(target)
        elsewhere += apply(target, heads.take_moves(repo, target, theirs), facts)
        heads.mark_moved(repo, target, theirs)
    pulls = affected_pulls(repo, moves, locking=True)
    tips = tips_after(repo, pulls, moves)
    base_only = with_new_base_only(pulls, moves, facts)
    for name in {pull.target_ref for pull in pulls if pull.pk in base_only}:
        ids = [pull.pk for pull in pulls if pull.pk in base_only and pull.target_ref == name]
        now = timezone.now()
        # Those that wait for the worker keep their turn, or it might never come.
        due_at = Least(Coalesce("conflict_due_at", now), now)
        repo.pulls.filter(pk__in=ids).update(
            base_sha=tips[name], has_conflict=None, conflict_due_at=due_at
        )
    others = [pull for pull in pulls if pull.pk not in base_only]
    return elsewhere + [
        event for pull in others for event in write_change(pull, moves, tips, facts)
    ]


def affected_pulls(repo: Repo, moves: Sequence[RefMove], *, locking: bool = False) -> list[Pull]:
    """The pulls from or into these branches, by number, with their threads and any merges under
    way.

    A closed pull is among them only if its merge may have died after git had carried it out.
    """
    names = _filled_up([move.name for move in moves if move.is_branch])
    numbers = _filled_up([heads.pull_number(move.full_name) for move in moves])
    statement = _affected(len(names), len(numbers), locking=locking)
    pulls: list[Pull] = statement.all(repo=repo.pk, names=names, numbers=numbers)
    for pull in pulls:
        pull.repo = repo
    return pulls


def _filled_up(values: Sequence[str | int | None]) -> list[str | int | None]:
    """These values, and some nulls, which equal nothing: so there are few texts of the statement.

    It makes a power of two of up to 256, and a multiple of 512 of more.
    """
    known = [value for value in values if value is not None]
    lacking = -len(known) % 512
    if len(known) <= 256:
        lacking = (1 << max(0, len(known) - 1).bit_length()) - len(known)
    return [*known, *[None] * lacking]


@cache
def _affected(names: int, numbers: int, *, locking: bool) -> Statement:
    """Selects pulls by so many names of branches, and so many numbers."""
    branches = parameters("names", names)
    either = Q(source_repo=Parameter("repo"), source_branch__in=branches)
    either |= Q(target_branch__in=branches) | Q(number__in=parameters("numbers", numbers))
    rows = Pull.objects.filter(IS_ACTIVE | Q(attempt__isnull=False), either)
    rows = rows.filter(repo=Parameter("repo")).order_by("number")
    rows = rows.select_related("thread", "attempt__actor")
    if locking:
        rows = rows.select_for_update(of=("self",))
    return Statement(rows.all)


def tips_after(repo: Repo, pulls: Iterable[Pull], moves: Sequence[RefMove]) -> Tips:
    """The heads that the targets of these pulls have when all moves are stored; one query, none if
    all of them move.
    """
    tips: Tips = {move.full_name: move.new for move in moves}
    others = {pull.target_ref for pull in pulls}.difference(tips)
    if others:
        tips |= repo.refs.filter(full_name__in=others).values_list("full_name", "sha")
    return {name: sha for name, sha in tips.items() if sha != ZERO}


def with_new_base_only(
    pulls: Sequence[Pull], moves: Sequence[RefMove], facts: GitFacts
) -> set[int]:
    """The ids of the pulls of which nothing but the base changes: their target has gained commits,
    and none of theirs.

    One git for all pulls of a target, or a branch with many pulls could not be pushed to.
    """
    moved = {move.full_name for move in moves}
    found: set[int] = set()
    for name in moved.intersection(pull.target_ref for pull in pulls):
        steps = [move for move in moves if move.full_name == name]
        plain = [pull for pull in pulls if pull.target_ref == name and is_at(pull, steps[0].old)]
        plain = [pull for pull in plain if pull.source_ref not in moved]
        if plain and only_gains_commits(steps, facts):
            heads = frozenset(str(pull.head_sha) for pull in plain)
            shared = heads_with_gained_commits(steps, heads, facts)
            found |= {pull.pk for pull in plain if pull.head_sha not in shared}
    return found


def is_at(pull: Pull, base: str) -> bool:
    """Whether the pull is active and has a head and this base, and no merge of it is under way."""
    free = pull.is_active and getattr(pull, "attempt", None) is None
    return free and pull.head_sha is not None and pull.base_sha == base


def only_gains_commits(steps: Sequence[RefMove], facts: GitFacts) -> bool:
    """Whether a branch only gains commits by these moves; False where git cannot tell."""
    git = steps[0].repo.git
    try:
        return all(
            ZERO not in (step.old, step.new)
            and not facts.ask(GitRepo.distance, git, step.old, step.new).lost
            for step in steps
        )
    except GitError:
        return False


def heads_with_gained_commits(
    steps: Sequence[RefMove], heads: frozenset[str], facts: GitFacts
) -> frozenset[str]:
    """Which heads have a commit that the branch gains; all of them where git cannot tell."""
    try:
        return facts.ask(heads_sharing, steps[0].repo.git, steps[0].old, steps[-1].new, heads)
    except GitError:
        return heads


@dataclass(frozen=True)
class MergedByMove:
    """The move by which a target came to contain a pull's head.

    `attempt`: the merge that made this move; None where somebody pushed it.
    """

    move: RefMove
    head: str
    attempt: MergeAttempt | None


@dataclass(frozen=True)
class PullChange:
    """What some moves do to one pull: its state after them, the moves that its head has followed,
    the one that merged it, and the versions that it comes to have: one for each of `pushed`, and
    perhaps another one.
    """

    state: GitState
    pushed: list[RefMove]
    merged: MergedByMove | None
    versions: list[NewVersion]


def change_of(pull: Pull, moves: Sequence[RefMove], tips: Tips, facts: GitFacts) -> PullChange:
    """What these moves do to this pull. Asks git, changes nothing."""
    merged = find_merging_move(pull, moves, facts)
    pushed = head_moves(pull, moves, merged.head if merged else None)
    head = pushed[-1].new if pushed else pull.head_sha
    base = tips.get(pull.target_ref) if head else None
    if merged is not None:
        head, base = merged.head, merged.move.old
    heads = [(move.new, move.actor.pk if move.actor else None) for move in pushed]
    if head is not None and head != (pushed[-1].new if pushed else pull.head_sha):
        heads.append((head, None))  # a merge that died has merged an earlier head
    versions = new_versions(pull, base, heads, facts)
    return PullChange(state_between(pull, base, head, facts), pushed, merged, versions)


def head_moves(pull: Pull, moves: Sequence[RefMove], last: str | None) -> list[RefMove]:
    """The moves of the source branch that change the head, up to the one that makes it `last`."""
    found: list[RefMove] = []
    head = pull.head_sha
    for move in moves:
        if head is not None and head == last:
            break
        if move.full_name == pull.source_ref and move.new not in (ZERO, head):
            found.append(move)
            head = move.new
    return found


def find_merging_move(pull: Pull, moves: Sequence[RefMove], facts: GitFacts) -> MergedByMove | None:
    """The first move that merges the pull; None while it is not merged.

    It counts which head the pull had at that move, or gets with the same push. A push that creates
    the target merges no pull.
    """
    head = pull.head_sha
    for index, move in enumerate(moves):
        if move.full_name == pull.source_ref and move.new != ZERO:
            head = move.new
        if move.full_name == pull.target_ref and ZERO not in (move.old, move.new):
            later = [one.new for one in moves[index:] if one.full_name == pull.source_ref]
            merged = merged_by(pull, move, [*reversed(later), head], facts)
            if merged is not None:
                return merged
    return None


def merged_by(
    pull: Pull, move: RefMove, heads: Iterable[str | None], facts: GitFacts
) -> MergedByMove | None:
    """Whether one move of the target merges the pull: as planned by a merge under way, or because
    it brings in one of these heads.
    """
    attempt: MergeAttempt | None = getattr(pull, "attempt", None)
    if attempt is not None and gains(move, attempt.result_sha, facts):
        return MergedByMove(move, attempt.head_sha or move.new, attempt)
    if not pull.is_active:
        return None
    found = (MergedByMove(move, head, None) for head in heads if head and gains(move, head, facts))
    return next(found, None)


def gains(move: RefMove, sha: str | None, facts: GitFacts) -> bool:
    """Whether the branch contains this commit after the move, and did not before."""
    if sha in (None, ZERO):
        return False
    git, commit = move.repo.git, str(sha)
    try:
        if commit == move.new:  # git is asked for the distance anyway: the event tells it
            return facts.ask(GitRepo.distance, git, move.old, move.new).gained > 0
        contained = facts.ask(GitRepo.is_ancestor, git, commit, move.new)
        return contained and not facts.ask(GitRepo.is_ancestor, git, commit, move.old)
    except GitError:  # a commit that was built for a merge which never happened may have gone
        return False


def write_change(pull: Pull, moves: Sequence[RefMove], tips: Tips, facts: GitFacts) -> list[Change]:
    """Write what the moves do to one pull; returns its events."""
    change = change_of(pull, moves, tips, facts)
    if not pull.is_active and change.merged is None:
        return []
    before, had_base = pull.head_sha, pull.base_sha is not None
    first = pull.last_version + 1
    pull.set_git_state(change.state)
    pull.last_version += len(change.versions)
    if change.pushed:
        pull.head_pushed_by = change.pushed[-1].actor
    events = []
    for version, move in enumerate(change.pushed, first):
        events.append(pushed_event(pull, move, before, version))
        before = move.new
    if change.merged is not None:
        events.append(set_merged(pull, change.merged))
    if change.pushed:
        pull.touch()
    pull.save(update_fields=WRITTEN)
    versions = write_versions(pull, change.versions)
    if not had_base:
        note_base(pull)
    if any(move.full_name == pull.source_ref for move in moves) or change.merged is not None:
        update_refs_on_commit(pull, versions)
    return events


def pushed_event(pull: Pull, move: RefMove, before: str | None, version: int) -> Change:
    """The event of a head that has moved, and so has become this version. `before` is not always
    the move's own `old`: a branch that is deleted leaves the pull its head.
    """
    heads = {"before": before, "after": move.new, "head_sha": move.new}
    data = {**pull.event_heads(), **heads, "version": version}
    return Change(Kind.PULL_PUSHED, move.actor, pull, data)


def set_merged(pull: Pull, merged: MergedByMove) -> Change:
    """Mark the pull as merged, unsaved; returns the event. Locks the thread."""
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
