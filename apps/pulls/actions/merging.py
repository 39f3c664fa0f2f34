"""Merging a pull, so that one commit comes of it whatever runs beside it or dies (engine.md §3).

The lease, the commit's objects, what is meant to happen, then in one transaction the ref and the
rows. Whoever dies before that ends is followed up by `settle`, from the journal and the attempt.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from apps.core.errors import Conflict, unavailable
from apps.core.locks import lock
from apps.git.merge import Built, Strategy, build
from apps.git.repo import GitRepo
from apps.git.run import GitError
from apps.pulls import rules
from apps.pulls.models import MergeAttempt, Pull, PullStatus
from apps.pulls.sources import bring
from apps.repos.models import PushJournal
from apps.repos.pushes import apply_moves, open_journal, prepare, settle
from apps.repos.rules import RefMove

if TYPE_CHECKING:
    from apps.accounts.models import User

LEASE_SECONDS = 60
TRIES = 3
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Merge:
    """What was asked for: by whom, how, and at which head if the caller said so."""

    actor: User
    pull: Pull
    strategy: Strategy
    expected_head: str | None


@dataclass(frozen=True)
class Plan:
    """The move of the target that carries the merge out, and the head it brings."""

    move: RefMove
    head: str


def merge_pull(
    *,
    actor: User,
    pull: Pull,
    merge_strategy: str = Strategy.MERGE,
    expected_head_sha: str | None = None,
) -> None:
    """Merge the pull's head into its target; events `branch-pushed`, then `pull-merged`.

    Errors: 409 with the blockers of behaviour.md §8.9, `head_changed`, `merge_in_progress`; 503
    when the target was moved under it three times, or git fails. Locks: the pull to take the
    lease; at the end the repository, then the pull.
    """
    asked = Merge(actor, pull, Strategy(merge_strategy), expected_head_sha)
    try:
        _refuse_blocked(asked)
        _merge(asked)
    except GitError:
        # Too slow, or a ref that stays locked: it may go well the next time.
        logger.exception("merging pull %s of repository %s", pull.number, pull.repo.uuid)
        raise unavailable() from None


def _refuse_blocked(asked: Merge) -> None:
    """Name everything that stands in the way, as far as it can be known before the lease."""
    pull = asked.pull
    state = rules.state_blocker(pull)
    if state is not None and pull.status == PullStatus.MERGED:
        raise rules.refuse([state])
    blockers = [] if state is None else [state]
    missing_approval = rules.approval_blockers(pull)
    source, target = pull.tips()
    if source is None or target is None:
        blockers.append(rules.missing_branch(pull, source))
    elif blockers or missing_approval:
        if not blockers:
            rules.check_head(source, asked.expected_head)
        bring(pull, source)
        with pull.repo.git.dry() as dry:
            built = _build(asked, dry, target, source)
        blockers += [] if isinstance(built, str) else [built]
    blockers += missing_approval
    if blockers:
        raise rules.refuse(blockers)


def _merge(asked: Merge) -> None:
    attempt = _claim(asked)
    merged = False
    try:
        _heal(attempt)
        merged = _carry_out(asked, attempt)
    finally:
        if not merged:
            _give_up(attempt)


@transaction.atomic
def _claim(asked: Merge) -> MergeAttempt:
    """Take the lease, or take over a dead one with what it meant to do; 409 for a live one."""
    pull = asked.pull
    lock(pull)
    _check_state(pull)
    attempt = MergeAttempt.objects.filter(pull=pull).first()
    if attempt is None:
        attempt = MergeAttempt(actor=asked.actor, strategy=asked.strategy)
    elif attempt.leased_until > timezone.now():
        raise _in_progress(pull)
    attempt.pull, attempt.token = pull, uuid.uuid4()
    attempt.renew(LEASE_SECONDS)
    attempt.save()
    return attempt


def _heal(attempt: MergeAttempt) -> None:
    """Follow up what a dead merge of this pull has left; 409 when that has merged it."""
    if attempt.push is None:
        return
    settle(repo=attempt.pull.repo, push=attempt.push)
    attempt.push = None
    with transaction.atomic():
        lock(attempt.pull)
        _check_state(attempt.pull)


def _carry_out(asked: Merge, attempt: MergeAttempt) -> bool:
    for _ in range(TRIES):
        plan = _plan(asked)
        push = _note(asked, attempt, plan)
        prepare(asked.pull.repo, [plan.move])
        if _land(asked, attempt, plan, push):
            return True
        # The rows are behind git, or the tips have moved on: catch up before the next try.
        settle(repo=asked.pull.repo, push=push)
    raise unavailable()


def _plan(asked: Merge) -> Plan:
    """Write the commit's objects, which nothing refers to yet, and say which ref should move."""
    pull = asked.pull
    source, target = pull.tips()
    if source is None or target is None:
        raise rules.refuse([rules.missing_branch(pull, source)])
    rules.check_head(source, asked.expected_head)
    bring(pull, source)
    built = _build(asked, pull.repo.git, target, source)
    if not isinstance(built, str):
        raise rules.refuse([built, *rules.approval_blockers(pull)])
    return Plan(RefMove(pull.repo, pull.target_ref, target, built, asked.actor), source)


def _build(asked: Merge, git: GitRepo, target: str, head: str) -> str | rules.Blocker:
    """The commit that merges the two, or what git says against it."""
    author = rules.signature(asked.actor)
    if asked.strategy is Strategy.SQUASH:
        author = rules.squash_author(asked.pull, git.commit_authors(target, head))
    outcome = build(
        git,
        asked.strategy,
        target,
        head,
        author=author,
        committer=rules.signature(asked.actor),
        message=rules.merge_message(asked.pull, asked.strategy),
        when=timezone.now(),
    )
    return outcome.sha if isinstance(outcome, Built) else rules.outcome_blocker(outcome)


@transaction.atomic
def _note(asked: Merge, attempt: MergeAttempt, plan: Plan) -> uuid.UUID:
    """Commit what is about to happen, before git may do it; 409 when the lease is lost."""
    move = plan.move
    step = (move.full_name, move.old, move.new)
    attempt.push = push = open_journal(actor=asked.actor, repo=move.repo, moves=[step])
    attempt.actor, attempt.strategy = asked.actor, asked.strategy
    attempt.head_sha, attempt.result_sha = plan.head, move.new
    attempt.renew(LEASE_SECONDS)
    _check_lease(attempt)
    attempt.save()
    return push


@transaction.atomic
def _land(asked: Merge, attempt: MergeAttempt, plan: Plan, push: uuid.UUID) -> bool:
    """Move the ref and write the rows; False when the tips are not those of the plan any more."""
    pull, move = asked.pull, plan.move
    lock(pull.repo)
    lock(pull)
    _check_lease(attempt)
    _check_state(pull)
    pull.repo.check_writable()
    if pull.tips() != (plan.head, move.old):
        return False
    _check_approval(pull)
    if not move.repo.git.update_ref(move.full_name, move.new, move.old):
        return False
    PushJournal.objects.filter(repo=move.repo, push=push).delete()
    apply_moves(move.repo, [move])
    lock(pull)
    return True


def _give_up(attempt: MergeAttempt) -> None:
    """End a merge that has failed. Had git carried it out all the same, its rows follow first."""
    if attempt.push is not None:
        settle(repo=attempt.pull.repo, push=attempt.push)
    MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token).delete()


def _check_state(pull: Pull) -> None:
    blocker = rules.state_blocker(pull)
    if blocker is not None:
        raise rules.refuse([blocker])


def _check_approval(pull: Pull) -> None:
    """What reviewers, admins and pushes did until now counts: they take these locks too."""
    blockers = rules.approval_blockers(pull)
    if blockers:
        raise rules.refuse(blockers)


def _check_lease(attempt: MergeAttempt) -> None:
    """Fence off whoever was so slow that another has taken over. Inside a transaction."""
    own = MergeAttempt.objects.select_for_update().filter(pk=attempt.pk, token=attempt.token)
    if not own.exists():
        raise _in_progress(attempt.pull)


def _in_progress(pull: Pull) -> Conflict:
    return Conflict("merge_in_progress", f"Pull {pull.number} is being merged. Try again soon.")
