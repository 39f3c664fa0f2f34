"""Merging a pull exactly once, whatever runs at the same time and wherever a process dies.

Four steps: take a lease; build the commit's objects; store the plan; move the ref and write the
rows in one transaction. If a process dies in the last, `settle` writes the rows, from the journal
and the attempt. docs/pulls.md says more.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import Conflict, unavailable
from apps.core.locks import lock
from apps.git.facts import GitFacts
from apps.git.merge import Built, Strategy, build
from apps.git.repo import GitRepo
from apps.git.run import GitError
from apps.pulls import rules
from apps.pulls.approval import all_blockers, approval_of, read_approval
from apps.pulls.models import MergeAttempt, Pull
from apps.pulls.sources import fetch_commit
from apps.repos.access import RepoAccess
from apps.repos.models import PushJournal
from apps.repos.pushes import apply_moves, open_journal, read_facts, settle
from apps.repos.rules import RefMove

LEASE_SECONDS = 60
TRIES = 3
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Merge:
    """What was asked for: by whom, how, and at which head if the caller said so."""

    by: RepoAccess
    pull: Pull
    strategy: Strategy
    expected_head: str | None


@dataclass(frozen=True)
class Plan:
    """The move of the target that carries the merge out, and the head that is merged by it."""

    move: RefMove
    head: str


def merge_pull(
    *,
    by: RepoAccess,
    pull: Pull,
    merge_strategy: str = Strategy.MERGE,
    expected_head_sha: str | None = None,
) -> None:
    """Merge the pull's head into its target; events `branch-pushed`, then `pull-merged`.

    Needs write access, at the end too. Errors: 409 with all blockers (docs/pulls.md),
    `head_changed`, `merge_in_progress`; 503 when the target was moved under it three times, or git
    fails. Locks: the pull to take the lease; at the end the repository, then the pull.
    """
    by.require_change(Level.WRITE)
    by.check_holds(pull)
    merge = Merge(by, pull, Strategy(merge_strategy), expected_head_sha)
    try:
        _check_blockers(merge)
        _merge(merge)
    except GitError:
        # Too slow, or a ref that stays locked: it may go well the next time.
        logger.exception("merging pull %s of repository %s", pull.number, pull.repo.uuid)
        raise unavailable() from None


def _check_blockers(merge: Merge) -> None:
    """Refuse with all blockers, as far as they can be known before the lease."""
    pull = merge.pull
    approval, refused = approval_of(pull), bool(rules.state_blockers(pull))

    def git_says(target: str, source: str) -> rules.Blocker | None:
        if not refused:
            rules.check_head(source, merge.expected_head)
        fetch_commit(pull, source)
        if not refused and not approval.blockers():
            return None  # git is asked with the lease, when the commit is built
        with pull.repo.git.dry() as dry:
            built = _build(merge, dry, target, source)
        return None if isinstance(built, str) else built

    rules.check_unblocked(all_blockers(pull, approval, git_says))


def _merge(merge: Merge) -> None:
    attempt = _take_lease(merge)
    merged = False
    try:
        _settle_earlier(attempt)
        merged = _try_merge(merge, attempt)
    finally:
        if not merged:
            _release_lease(attempt)


@transaction.atomic
def _take_lease(merge: Merge) -> MergeAttempt:
    """Take the lease, or an expired one with the plan of whoever held it; 409 while one runs."""
    pull = merge.pull
    lock(pull)
    rules.check_unblocked(rules.state_blockers(pull))
    attempt = MergeAttempt.objects.filter(pull=pull).first()
    if attempt is None:
        attempt = MergeAttempt(actor=merge.by.user, strategy=merge.strategy)
    elif attempt.leased_until > timezone.now():
        raise _in_progress(pull)
    attempt.pull, attempt.token = pull, uuid.uuid4()
    attempt.renew(LEASE_SECONDS)
    attempt.save()
    return attempt


def _settle_earlier(attempt: MergeAttempt) -> None:
    """Write the rows of an earlier merge of this pull that died; 409 if that has merged it."""
    if attempt.push is None:
        return
    settle(repo=attempt.pull.repo, push=attempt.push)
    attempt.push = None
    with transaction.atomic():
        lock(attempt.pull)
        rules.check_unblocked(rules.state_blockers(attempt.pull))


def _try_merge(merge: Merge, attempt: MergeAttempt) -> bool:
    for _ in range(TRIES):
        plan = _plan(merge)
        push = _store_plan(merge, attempt, plan)
        facts = read_facts(merge.pull.repo, [plan.move])
        read_approval(merge.pull, facts)
        if _move_target(merge, attempt, plan, push, facts):
            return True
        # The rows are behind git, or the tips have moved: bring the rows up to git, then try again.
        settle(repo=merge.pull.repo, push=push)
    raise unavailable()


def _plan(merge: Merge) -> Plan:
    """Write the commit's objects, to which no ref points yet, and say which ref should move."""
    pull = merge.pull
    source, target = pull.tips()
    if source is None or target is None:
        raise rules.refuse([rules.missing_branch(pull, source)])
    rules.check_head(source, merge.expected_head)
    fetch_commit(pull, source)
    built = _build(merge, pull.repo.git, target, source)
    if not isinstance(built, str):
        blocker = built
        raise rules.refuse(all_blockers(pull, approval_of(pull), lambda *_: blocker))
    return Plan(RefMove(pull.repo, pull.target_ref, target, built, merge.by.user), source)


def _build(merge: Merge, git: GitRepo, target: str, head: str) -> str | rules.Blocker:
    """The commit that merges the two, or what git says against it."""
    author = rules.signature(merge.by.user)
    if merge.strategy is Strategy.SQUASH:
        author = rules.squash_author(merge.pull, git.commit_authors(target, head))
    outcome = build(
        git,
        merge.strategy,
        target,
        head,
        author=author,
        committer=rules.signature(merge.by.user),
        message=rules.merge_message(merge.pull, merge.strategy),
        when=timezone.now(),
    )
    return outcome.sha if isinstance(outcome, Built) else rules.outcome_blocker(outcome)


@transaction.atomic
def _store_plan(merge: Merge, attempt: MergeAttempt, plan: Plan) -> uuid.UUID:
    """Commit the plan to the database before git may carry it out; 409 when the lease is lost."""
    move = plan.move
    step = (move.full_name, move.old, move.new)
    attempt.push = push = open_journal(actor=merge.by.user, repo=move.repo, moves=[step])
    attempt.actor, attempt.strategy = merge.by.user, merge.strategy
    attempt.head_sha, attempt.result_sha = plan.head, move.new
    attempt.renew(LEASE_SECONDS)
    _check_lease(attempt)
    attempt.save()
    return push


@transaction.atomic
def _move_target(
    merge: Merge, attempt: MergeAttempt, plan: Plan, push: uuid.UUID, facts: GitFacts
) -> bool:
    """Move the ref and write the rows; False when the tips are not those of the plan any more."""
    pull, move = merge.pull, plan.move
    lock(pull.repo)
    lock(pull)
    _check_lease(attempt)
    rules.check_unblocked(rules.state_blockers(pull))
    merge.by.renewed().require_change(Level.WRITE)
    if pull.tips() != (plan.head, move.old):
        return False
    # Reviewers, admins and pushes take the same locks, so this holds until they are released.
    rules.check_unblocked(approval_of(pull, facts).blockers())
    if not move.repo.git.update_ref(move.full_name, move.new, move.old):
        return False
    PushJournal.objects.filter(repo=move.repo, push=push).delete()
    apply_moves(move.repo, [move], facts)
    lock(pull)
    pull.merged_by = merge.by.user  # what the row says, with the person loaded
    return True


def _release_lease(attempt: MergeAttempt) -> None:
    """End a merge that has failed. If git has moved the ref all the same, write its rows first."""
    if attempt.push is not None:
        settle(repo=attempt.pull.repo, push=attempt.push)
    MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token).delete()


def _check_lease(attempt: MergeAttempt) -> None:
    """409 when the lease has expired and another merge has taken it. Inside a transaction."""
    own = MergeAttempt.objects.select_for_update().filter(pk=attempt.pk, token=attempt.token)
    if not own.exists():
        raise _in_progress(attempt.pull)


def _in_progress(pull: Pull) -> Conflict:
    return Conflict("merge_in_progress", f"Pull {pull.number} is being merged. Try again soon.")
