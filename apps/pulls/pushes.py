"""What moved branches mean for pulls: new heads, new figures, and which of them are merged by it.

`prepare` and `follow` are called for every push and every merge (`settings.AFTER_PUSH`): the first
before the lock, to have git's answers at hand, the second inside the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.git import cache
from apps.git.repo import DiffStat, GitRepo, pull_ref
from apps.git.run import GitError
from apps.pulls import sources
from apps.pulls.models import IS_ACTIVE, MergeAttempt, Pull, PullQuerySet, PullStatus, Review
from apps.repos.rules import ZERO, RefMove

if TYPE_CHECKING:
    from apps.repos.models import Repo

Tips = dict[str, str]
"""Full name of a branch -> its stored head."""
WRITTEN = [
    *("head_sha", "base_sha", "head_pushed_by", "commit_count", "additions", "deletions"),
    *("changed_files", "status", "closed_at", "merged_at", "merged_by", "merge_strategy"),
    *("merge_commit_sha", "patch_id", "updated_at"),
]
KEEP_TRIES = 3


def prepare(repo: Repo, moves: Sequence[RefMove]) -> None:
    """Ask git what `follow` will ask, so that the lock waits for no git. Changes no row."""
    for target, theirs in sources.moves_elsewhere(repo, moves):
        prepare(target, theirs)
    pulls = list(touched(repo, moves))
    tips = tips_after(repo, pulls, moves)
    unmoved = unmoved_by(pulls, moves)
    for pull in pulls:
        if pull.pk not in unmoved:
            step_of(pull, moves, tips)


def follow(repo: Repo, moves: Sequence[RefMove]) -> list[Callable[[], None]]:
    """Write what the moves mean for open and draft pulls; returns what records their events.

    Heads move with a `pull-pushed` for each step, targets silently; a pull whose target comes to
    contain its head is merged. Locks the pulls, by number. The caller holds the repository's lock
    and has stored the new heads.
    """
    elsewhere = []
    for target, theirs in sources.moves_elsewhere(repo, moves):
        lock(target)
        elsewhere += follow(target, theirs)
    pulls = list(touched(repo, moves).select_for_update(of=("self",)))
    tips = tips_after(repo, pulls, moves)
    unmoved = unmoved_by(pulls, moves)
    for name in {pull.target_ref for pull in pulls if pull.pk in unmoved}:
        followers = [pull.pk for pull in pulls if pull.pk in unmoved and pull.target_ref == name]
        repo.pulls.filter(pk__in=followers).update(base_sha=tips[name])
    others = [pull for pull in pulls if pull.pk not in unmoved]
    return elsewhere + [write for pull in others for write in follow_one(pull, moves, tips)]


def touched(repo: Repo, moves: Sequence[RefMove]) -> PullQuerySet:
    """The pulls from or into these branches, by number, with any merge under way.

    `reviewed` says whether somebody has written a review. A closed pull is among them only if its
    merge may have died after git had carried it out.
    """
    names = [move.name for move in moves if move.is_branch]
    numbers = [number for move in moves if (number := sources.number_of(move.full_name))]
    either = Q(source_repo=repo, source_branch__in=names) | Q(target_branch__in=names)
    either |= Q(number__in=numbers)
    pulls: PullQuerySet = repo.pulls.filter(either, IS_ACTIVE | Q(attempt__isnull=False))
    pulls = pulls.annotate(reviewed=Exists(Review.objects.filter(pull=OuterRef("pk"))))
    return pulls.select_related("thread", "attempt__actor").order_by("number")


def tips_after(repo: Repo, pulls: Iterable[Pull], moves: Sequence[RefMove]) -> Tips:
    """The heads that the branches of these pulls have when all moves are stored; one query."""
    wanted = {name for pull in pulls for name in (pull.source_ref, pull.target_ref)}
    if not wanted:
        return {}
    stored = repo.refs.filter(full_name__in=wanted).values_list("full_name", "sha")
    tips: Tips = {**dict(stored), **{move.full_name: move.new for move in moves}}
    return {name: sha for name, sha in tips.items() if sha != ZERO}


def unmoved_by(pulls: Sequence[Pull], moves: Sequence[RefMove]) -> set[int]:
    """The ids of pulls of which only the base moves: their target has gone forward, and brought
    nothing of theirs. One git for all pulls of a target, or a busy branch could not be pushed to.
    """
    moved = {move.full_name for move in moves}
    found: set[int] = set()
    for name in moved:
        steps = [move for move in moves if move.full_name == name]
        plain = [pull for pull in pulls if pull.target_ref == name and waits_at(pull, steps[0].old)]
        plain = [pull for pull in plain if pull.source_ref not in moved]
        if plain and goes_forward(steps):
            heads = frozenset(str(pull.head_sha) for pull in plain)
            shared = heads_sharing(steps, heads)
            found |= {pull.pk for pull in plain if pull.head_sha not in shared}
    return found


def waits_at(pull: Pull, base: str) -> bool:
    """Whether it has a head, stands at this base, and no merge of it is under way."""
    free = pull.is_active and getattr(pull, "attempt", None) is None
    return free and pull.head_sha is not None and pull.base_sha == base


def goes_forward(steps: Sequence[RefMove]) -> bool:
    """Whether a branch only gains commits by these moves."""
    git = steps[0].repo.git
    try:
        return all(
            ZERO not in (step.old, step.new) and not cache.distance(git, step.old, step.new).lost
            for step in steps
        )
    except GitError:
        return False


def heads_sharing(steps: Sequence[RefMove], heads: frozenset[str]) -> frozenset[str]:
    """Which heads have a commit that the moves bring; all of them where git cannot tell."""
    try:
        return cache.heads_sharing(steps[0].repo.git, steps[0].old, steps[-1].new, heads)
    except GitError:
        return heads


@dataclass(frozen=True)
class Landing:
    """The move by which a target came to contain a pull: at which head, and whether as planned."""

    move: RefMove
    head: str
    attempt: MergeAttempt | None


@dataclass(frozen=True)
class PullStep:
    """What some moves do to one pull."""

    head: str | None
    base: str | None
    figures: DiffStat
    patch_id: str | None
    pushed: list[RefMove]
    landing: Landing | None


def step_of(pull: Pull, moves: Sequence[RefMove], tips: Tips) -> PullStep:
    """What these moves do to this pull. Asks git, changes nothing."""
    landing = find_landing(pull, moves)
    pushed = head_moves(pull, moves, landing.head if landing else None)
    head = pushed[-1].new if pushed else pull.head_sha
    base = tips.get(pull.target_ref) if head else None
    if landing is not None:
        head, base = landing.head, landing.move.old
    git = pull.repo.git
    patch_id = name_patch(git, base, head) if getattr(pull, "reviewed", True) else None
    return PullStep(head, base, measure(git, base, head), patch_id, pushed, landing)


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


def find_landing(pull: Pull, moves: Sequence[RefMove]) -> Landing | None:
    """The first move that merges the pull; None while it is not merged.

    It counts which head the pull had at that move, or gets with the same push. A target that is
    only made by the push has not come to contain anything.
    """
    head = pull.head_sha
    for place, move in enumerate(moves):
        if move.full_name == pull.source_ref and move.new != ZERO:
            head = move.new
        if move.full_name == pull.target_ref and ZERO not in (move.old, move.new):
            later = [one.new for one in moves[place:] if one.full_name == pull.source_ref]
            landing = landing_of(pull, move, [*reversed(later), head])
            if landing is not None:
                return landing
    return None


def landing_of(pull: Pull, move: RefMove, heads: Iterable[str | None]) -> Landing | None:
    """Whether one move of the target merges the pull: as a merge under way meant to, or with one
    of these heads.
    """
    attempt: MergeAttempt | None = getattr(pull, "attempt", None)
    if attempt is not None and arrives(move, attempt.result_sha):
        return Landing(move, attempt.head_sha or move.new, attempt)
    if not pull.is_active:
        return None
    return next((Landing(move, head, None) for head in heads if head and arrives(move, head)), None)


def arrives(move: RefMove, sha: str | None) -> bool:
    """Whether this move brings the commit into the branch, which did not contain it before."""
    if sha in (None, ZERO):
        return False
    git, commit = move.repo.git, str(sha)
    try:
        arrived = cache.is_ancestor(git, commit, move.new)
        return arrived and not cache.is_ancestor(git, commit, move.old)
    except GitError:  # a commit that was built for a merge, but never landed, may have gone
        return False


def measure(git: GitRepo, base: str | None, head: str | None) -> DiffStat:
    """The figures between two tips; zeros while one is missing or git cannot tell in time."""
    if base is None or head is None:
        return DiffStat(0)
    try:
        return cache.diff_stat(git, base, head)
    except GitError:
        return DiffStat(0, too_large=True)


def name_patch(git: GitRepo, base: str | None, head: str | None) -> str | None:
    """The name of what the head changes; None while a tip is missing or git cannot tell."""
    if base is None or head is None:
        return None
    try:
        return cache.patch_id(git, base, head)
    except GitError:
        return None


def follow_one(pull: Pull, moves: Sequence[RefMove], tips: Tips) -> list[Callable[[], None]]:
    """Write one pull's step; returns what records its events."""
    step = step_of(pull, moves, tips)
    if not pull.is_active and step.landing is None:
        return []
    before = pull.head_sha
    pull.stand_at(step.head, step.base, step.figures, step.patch_id)
    if step.pushed:
        pull.head_pushed_by = step.pushed[-1].actor
    events = [pushed_event(pull, move, first) for move, first in chained(step.pushed, before)]
    if step.landing is not None:
        events.append(become_merged(pull, step.landing))
    if events:
        pull.updated_at = timezone.now()
    pull.save(update_fields=WRITTEN)
    if any(move.full_name == pull.source_ref for move in moves) or step.landing is not None:
        keep_head_on_commit(pull)
    return events


def chained(moves: list[RefMove], first: str | None) -> Iterable[tuple[RefMove, str | None]]:
    """Each move with the head that it found; a branch made anew finds the one that was kept."""
    return zip(moves, [first, *(move.new for move in moves)], strict=False)


def pushed_event(pull: Pull, move: RefMove, before: str | None) -> Callable[[], None]:
    """What records that the head has moved."""
    data = {"before": before, "after": move.new}
    return partial(record, Kind.PULL_PUSHED, actor=move.actor, about=pull, data=data)


def become_merged(pull: Pull, landing: Landing) -> Callable[[], None]:
    """Merged by a merge of ours, or by whoever pushed it; without saving the pull."""
    attempt = landing.attempt
    pull.merged_by = landing.move.actor
    pull.merge_commit_sha = landing.move.new
    if attempt is not None:
        pull.merged_by, pull.merge_strategy = attempt.actor, attempt.strategy
        pull.merge_commit_sha = attempt.result_sha
        MergeAttempt.objects.filter(pk=attempt.pk).delete()
    pull.merged_at = timezone.now()
    lock(pull.thread)
    pull.enter_status(PullStatus.MERGED)
    data: dict[str, Any] = {
        "head_sha": pull.head_sha,
        "merge_commit_sha": pull.merge_commit_sha,
        "merge_strategy": pull.merge_strategy,
        "target_branch": pull.target_branch,
    }
    return partial(record, Kind.PULL_MERGED, actor=pull.merged_by, about=pull, data=data)


def stand_at_tips(pull: Pull) -> None:
    """Take head, base and figures from the stored tips, without saving.

    A source branch that is gone leaves the head as it was. Inside the repository's lock, call it
    once before as well: then git's answer is at hand.
    """
    source, target = pull.tip_refs()
    if source is not None:
        sources.bring(pull, source.sha)
    if source is not None and source.sha != pull.head_sha:
        pull.head_sha, pull.head_pushed_by_id = source.sha, source.pushed_by_id
    base = target.sha if target is not None and pull.head_sha is not None else None
    git, head = pull.repo.git, pull.head_sha
    reviewed = not pull._state.adding and pull.reviews.exists()
    patch_id = name_patch(git, base, head) if reviewed else None
    pull.stand_at(head, base, measure(git, base, head), patch_id)


def keep_head_on_commit(pull: Pull) -> None:
    """Arrange that `refs/pull/<n>/head` holds the head, so that its commits outlive the branch.

    After the commit, because git has no part in a rollback; should it fail, the next push that
    touches the branch does it again.
    """
    transaction.on_commit(partial(keep_head, pull.repo.git, pull.pk), robust=True)


def keep_head(git: GitRepo, pull_id: int) -> None:
    """Move the pull's own ref to the stored head, whatever happens beside."""
    for _ in range(KEEP_TRIES):
        number, head = Pull.objects.values_list("number", "head_sha").get(pk=pull_id)
        ref = pull_ref(number)
        kept = git.ref(ref)
        if head in (None, kept) or git.update_ref(ref, str(head), kept or ZERO):
            return
