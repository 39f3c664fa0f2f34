"""Merges a pull exactly once, even with concurrent requests or if a process dies at any point.

Four steps: take a lease; build the commit; enter the target's queue and, when first, store the
plan; move the ref and write the rows in one transaction. If a process dies in the last step,
`settle` writes the rows, from the journal and the merge attempt. See docs/pulls.md.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from time import monotonic, sleep
from typing import Any, TypeAlias

from django.db import transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import PLAIN, Conflict, NotFound, Unavailable, git_failed, unavailable
from apps.core.locks import give_back_connection, hold, lock
from apps.core.statements import Parameter, Statement
from apps.core.transactions import final_transaction
from apps.git import cache
from apps.git.cache import GitFacts
from apps.git.merge import Built, Strategy, build
from apps.git.repo import Distance, GitRepo
from apps.git.run import GitError, Started
from apps.git.tips import tip_of, tip_of_commit
from apps.pulls import rules
from apps.pulls.actions.branches import delete_after_merge
from apps.pulls.approval import all_blockers, approval_of
from apps.pulls.heads import fetch_commit
from apps.pulls.models import AutoMerge, MergeAttempt, Pull
from apps.pulls.source_branch import SourceDeletion
from apps.repos.access import RepoAccess
from apps.repos.models import PushJournal, Ref
from apps.repos.pushes import apply_moves, is_doubted, open_journal, read_facts, settle
from apps.repos.rules import RefMove
from apps.repos.tips import know_stored

MERGE_SECONDS = 20.0
"""Seconds until the turn of a merge must come: the time that any request waits for a lock."""
LEASE_SECONDS = 25
"""The lease of a merge that builds its commit: a little more than `MERGE_SECONDS`. Other merges of
the same pull are refused meanwhile."""
TURN_SECONDS = 10
"""The lease of a merge in the queue, which it renews while it waits. A merge whose process has died
delays the others no longer than this."""
POLL_SECONDS = 0.02
"""Pause between two looks at the queue for each merge ahead."""
POLL_SECONDS_MAX = 0.5
"""The longest such pause."""
POSITION_SECONDS = 60
"""Time for which a merge whose turn did not come keeps its position in the queue."""
RETRY_AFTER_MAX = 20
"""The largest `Retry-After` of such a merge, in seconds."""
Tips: TypeAlias = tuple[str | None, str | None]
"""The head of the pull, and the tip of its target; None for a branch that does not exist."""
OF_PULL = Statement(lambda: MergeAttempt.objects.filter(pull=Parameter("pull")))
QUEUE = Statement(
    lambda: MergeAttempt.objects.filter(
        pull__repo=Parameter("repo"),
        pull__target_branch=Parameter("branch"),
        queued_at__isnull=False,
    ).values_list("pk", "queued_at", "leased_until", "push")
)
"""The merges into a branch that have entered its queue; also those whose lease has expired."""
logger = logging.getLogger(__name__)


class Overtaken(Exception):
    """The tips differ from those of the plan."""


class AutoMergeEnded(Exception):
    """The auto-merge that a merge carries out has ended meanwhile."""


class TurnMissed(Unavailable):
    """503 with an estimate of the seconds until the merge's turn. It keeps its position."""

    def __init__(self, seconds: float = 0) -> None:
        retry_after = min(max(1, ceil(seconds)), RETRY_AFTER_MAX)
        super().__init__(*PLAIN[503], headers={"Retry-After": str(retry_after)})


@dataclass(frozen=True)
class Merge:
    """The requested merge."""

    by: RepoAccess
    pull: Pull
    strategy: Strategy
    expected_head: str | None
    """The head that the caller has seen; None if the caller did not say."""
    target_branch: str
    """The target that the caller has seen."""
    deadline: float
    """The time on the monotonic clock until which its turn must come."""
    auto_merge: AutoMerge | None = None
    """The auto-merge that it carries out."""
    message: str | None = None
    """The message of its commit; None for the default."""
    is_final: bool = True
    """Whether the move of the target is the last transaction of the action."""


@dataclass(frozen=True)
class Plan:
    """The move of the target that carries out a merge."""

    move: RefMove
    head: str
    """The head that it merges."""
    content: bytes
    """The commit object's bytes if this merge created the new tip, else empty."""
    seconds: float
    """The time that it took to build the commit."""

    def facts(self, pull: Pull, strategy: Strategy) -> GitFacts:
        """The new tip and the distance of the move, if they are known without asking git."""
        facts, move = GitFacts(), self.move
        if self.content:
            tip = tip_of_commit(move.new, self.content)
            facts.know(tip, tip_of, move.repo.git, move.new)
        else:
            source = Ref.objects.filter(repo=pull.source_repo_id, full_name=pull.source_ref)
            know_stored(move.repo.git, source.filter(sha=move.new), facts)
        ahead = pull.commits_between(move.old, self.head)
        if ahead and strategy is not Strategy.REBASE:
            gained = {Strategy.MERGE: ahead + 1, Strategy.SQUASH: 1}.get(strategy, ahead)
            distance = Distance(lost=0, gained=gained)
            facts.know(distance, GitRepo.distance, move.repo.git, move.old, move.new)
        return facts


def merge_pull(
    *,
    access: RepoAccess,
    pull: Pull,
    merge_strategy: str = Strategy.MERGE,
    expected_head_sha: str | None = None,
    expected_target_branch: str | None = None,
    asked_since: dt.datetime | None = None,
    auto_merge: AutoMerge | None = None,
    message: str | None = None,
    delete_source_branch: bool = False,
) -> SourceDeletion | None:
    """Merge the pull's head into its target; events `branch-pushed`, then `pull-merged`.

    Requires write access, which is checked again at the end. `asked_since`: the time of the
    caller's first request, if its process may have died; a merge by the caller since then counts as
    this one. `auto_merge`: the pull's auto-merge that this merge carries out; `AutoMergeEnded` if
    the pull no longer has it at the end. `message`: of the commit, for `merge` and `squash` only.
    Returns the outcome of `delete_source_branch`, which comes after the merge.

    Errors: 422 for a message with another strategy; 409 with all blockers (docs/pulls.md),
    `head_changed`, `merge_in_progress`, `target_changed` if the target is another one or changes
    meanwhile; 503 if git fails, or if the merge's turn does not come within 20 seconds. It then
    keeps its position for a repeat. Locks the pull to take the lease; at the end the repository,
    then the pull.
    """
    access.require_change(Level.WRITE)
    access.check_holds(pull)
    deadline, strategy = monotonic() + MERGE_SECONDS, Strategy(merge_strategy)
    rules.check_target(pull, expected_target_branch)
    rules.check_message(message, strategy)
    target = pull.target_branch
    merge = Merge(access, pull, strategy, expected_head_sha, target, deadline, auto_merge, message)
    _merge_once(replace(merge, is_final=not delete_source_branch), asked_since)
    return delete_after_merge(access=access, pull=pull) if delete_source_branch else None


def _merge_once(merge: Merge, asked_since: dt.datetime | None) -> None:
    try:
        _merge(merge, _check_blockers(merge))
    except Conflict:
        if asked_since is None or not _is_made_since(asked_since, merge):
            raise
    except GitError as error:
        # git was too slow, or the ref was locked; the next request may succeed.
        pull = merge.pull
        logger.exception(
            "Pull %s of repository %s could not be merged", pull.number, pull.repo.uuid
        )
        raise git_failed(error) from None


def _is_made_since(moment: dt.datetime, merge: Merge) -> bool:
    """Whether the caller has made this merge since then. Reads the pull again."""
    pull = merge.pull
    with transaction.atomic():
        lock(pull)
        lock(pull.thread)
    is_own = (pull.merged_by_id, pull.merge_strategy) == (merge.by.user.pk, merge.strategy)
    has_head = merge.expected_head in {None, pull.head_sha}
    return is_own and has_head and pull.merged_at is not None and pull.merged_at >= moment


def _check_blockers(merge: Merge) -> Tips:
    """409 with all blockers that are known before the lease; return the tips."""
    pull = merge.pull
    approval, is_refused = approval_of(pull), bool(rules.state_blockers(pull))
    tips: Tips = (None, None)

    def ask_git(target: str, source: str) -> rules.Blocker | None:
        nonlocal tips
        tips = (source, target)
        if not is_refused:
            rules.check_head(source, merge.expected_head)
        fetch_commit(pull, source)
        if not is_refused and not approval.blockers():
            return None  # git is asked later, when the commit is built under the lease
        with pull.repo.git.dry() as dry:
            built = _build(merge, dry, target, source)
        return None if isinstance(built, Built) else built

    rules.check_unblocked(all_blockers(pull, approval, ask_git))
    return tips


def _merge(merge: Merge, tips: Tips) -> None:
    attempt = _take_lease(merge)
    try:
        if attempt.push is not None:
            _settle_earlier(attempt, attempt.push)
            tips = merge.pull.tips()
        _try_merge(merge, attempt, _plan(merge, tips))
    except TurnMissed:
        _keep_position(merge, attempt)
        raise
    except BaseException:
        _release_lease(attempt)
        raise


@transaction.atomic
def _take_lease(merge: Merge) -> MergeAttempt:
    """Take the lease, or take over an expired one with its plan; 409 if another merge holds it."""
    pull = merge.pull
    lock(pull)
    rules.check_target(pull, merge.target_branch)  # the lease prevents later changes
    rules.check_unblocked(rules.state_blockers(pull))
    attempt: MergeAttempt | None = OF_PULL.first(pull=pull.pk)
    position = None
    if attempt is None:
        attempt = MergeAttempt(actor=merge.by.user, strategy=merge.strategy)
    else:
        if attempt.leased_until > timezone.now():
            raise rules.merge_in_progress(pull)
        position = _kept_position(merge, attempt)
    attempt.pull, attempt.token, attempt.queued_at = pull, uuid.uuid4(), None
    attempt.renew(LEASE_SECONDS)
    attempt.save()
    # Not stored before the commit is built, so that the attempt does not delay others until then.
    attempt.queued_at = position
    return attempt


def _kept_position(merge: Merge, attempt: MergeAttempt) -> dt.datetime | None:
    """The position of an earlier attempt at the same merge that was refused or died recently."""
    is_same = (attempt.actor_id, attempt.strategy) == (merge.by.user.pk, merge.strategy)
    is_recent = attempt.leased_until > timezone.now() - dt.timedelta(seconds=POSITION_SECONDS)
    return attempt.queued_at if is_same and is_recent else None


def _settle_earlier(attempt: MergeAttempt, push: uuid.UUID) -> None:
    """Write the rows of an earlier, dead merge of this pull; 409 if git had made it."""
    settle(repo=attempt.pull.repo, push=push)
    attempt.push = None
    with transaction.atomic():
        lock(attempt.pull)
        rules.check_unblocked(rules.state_blockers(attempt.pull))


def _try_merge(merge: Merge, attempt: MergeAttempt, plan: Plan) -> None:
    while True:
        while (push := _take_turn(merge, attempt, plan)) is None:
            _wait_for_turn(merge, attempt, plan)
            plan = _plan_of_turn(merge, attempt, plan)
        with suppress(Overtaken), merge.pull.repo.git.start_update() as git:
            facts = read_facts(merge.pull.repo, [plan.move], plan.facts(merge.pull, merge.strategy))
            approval_of(merge.pull, facts).blockers()  # asks git, for the check under the lock
            in_transaction = final_transaction if merge.is_final else transaction.atomic
            in_transaction(_move_target)(merge, attempt, plan, push, facts, git)
            return
        # Either the rows are older than git's refs, or the tips have moved. Update the rows first.
        settle(repo=merge.pull.repo, push=push)
        attempt.push = None
        if monotonic() > merge.deadline:
            raise TurnMissed


def _wait_for_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> None:
    """Wait until no earlier merge into the target is in progress; 503 if that takes too long.

    `Retry-After` assumes that each merge ahead takes as long to build as this one. If a lease
    expires and two merges take their turn at once, one finds that the target has moved, and tries
    again.
    """
    while ahead := _ahead(attempt):
        if monotonic() > merge.deadline:
            raise TurnMissed(ahead * plan.seconds)
        if attempt.leased_until < timezone.now() + dt.timedelta(seconds=TURN_SECONDS / 2):
            _renew(attempt, TURN_SECONDS)
        give_back_connection()
        sleep(min(POLL_SECONDS * ahead, POLL_SECONDS_MAX))


def _ahead(attempt: MergeAttempt) -> int:
    """The number of merges into the same target that are in progress, and are ahead in the queue or
    have stored their plan: a repeat may have an earlier place than a merge whose turn has come.
    """
    now, position = timezone.now(), (attempt.queued_at, attempt.pk)
    return sum(
        leased_until > now and pk != attempt.pk and (push is not None or (queued_at, pk) < position)
        for pk, queued_at, leased_until, push in QUEUE.all(
            repo=attempt.pull.repo_id, branch=attempt.pull.target_branch
        )
    )


def _plan_of_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> Plan:
    """The plan, a new one if the tips have moved; 503 if less time is left than that took."""
    tips = merge.pull.tips()
    if tips == (plan.head, plan.move.old):
        return plan
    if monotonic() + plan.seconds > merge.deadline:
        raise TurnMissed
    _renew(attempt, LEASE_SECONDS)
    return _plan(merge, tips)


def _plan(merge: Merge, tips: Tips) -> Plan:
    """Build the commit, to which no ref points yet, and plan the move of the target."""
    pull, began = merge.pull, monotonic()
    source, target = tips
    if source is None or target is None:
        raise rules.MergeRefused([rules.missing_branch(pull, source)])
    if (pull.base_sha, pull.head_sha) != (target, source):  # another pull was merged meanwhile
        pull.refresh_from_db(fields=["base_sha", "head_sha", "commit_count"])
    rules.check_head(source, merge.expected_head)
    fetch_commit(pull, source)
    built = _build(merge, pull.repo.git, target, source)
    if not isinstance(built, Built):
        blocker = built
        raise rules.MergeRefused(all_blockers(pull, approval_of(pull), lambda *_: blocker))
    move = RefMove(pull.repo, pull.target_ref, target, built.sha, merge.by.user)
    return Plan(move, source, built.content, seconds=monotonic() - began)


def _build(merge: Merge, git: GitRepo, target: str, head: str) -> Built | rules.Blocker:
    """The commit that merges the two, or the blocker if git cannot build it."""
    author = rules.signature(merge.by.user)
    with cache.building(git, merge.strategy, target, head):
        if merge.strategy is Strategy.SQUASH:
            author = rules.squash_author(merge.pull, git.commit_authors(target, head))
        outcome = build(
            git,
            merge.strategy,
            target,
            head,
            author=author,
            committer=rules.signature(merge.by.user),
            message=merge.message or rules.merge_message(merge.pull, merge.strategy),
            when=timezone.now(),
            ahead=merge.pull.commits_between(target, head),
        )
    return outcome if isinstance(outcome, Built) else rules.outcome_blocker(outcome)


@transaction.atomic
def _take_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> uuid.UUID | None:
    """Enter the queue and, if no merge is ahead and the tips are unchanged, store the plan in the
    journal before git carries it out. None if it is not this merge's turn. 409 if the lease is
    lost.
    """
    move = plan.move
    hold(merge.pull.merge_queue)  # of two merges that enter at once, one must see the other
    attempt.queued_at = attempt.queued_at or timezone.now()
    stored: dict[str, Any] = {"queued_at": attempt.queued_at, "push": None}
    if not _ahead(attempt) and merge.pull.tips() == (plan.head, move.old):
        step = (move.full_name, move.old, move.new)
        attempt.push = open_journal(actor=merge.by.user, repo=move.repo, moves=[step])
        stored |= {"actor": merge.by.user, "strategy": merge.strategy, "push": attempt.push}
        stored |= {"head_sha": plan.head, "result_sha": move.new}
    _renew(attempt, TURN_SECONDS, **stored)
    return attempt.push


def _move_target(
    merge: Merge, attempt: MergeAttempt, plan: Plan, push: uuid.UUID, facts: GitFacts, git: Started
) -> None:
    """Move the ref with `git` and write the rows; `Overtaken` if the tips have moved. Call it
    inside a transaction.
    """
    pull, move = merge.pull, plan.move
    lock(pull.repo)
    lock(pull)
    _check_lease(attempt)
    if merge.auto_merge not in (None, pull.auto_merge):
        raise AutoMergeEnded
    rules.check_unblocked(rules.state_blockers(pull))
    merge.by.renewed().require_change(Level.WRITE)
    if pull.tips() != (plan.head, move.old):
        raise Overtaken
    # Reviews, protections and pushes take the same locks, and cannot change before the commit.
    rules.check_unblocked(approval_of(pull, facts).blockers())
    if not move.repo.git.update_ref(move.full_name, move.new, move.old, git):
        if is_doubted(move.repo, move.full_name):
            raise unavailable()  # a retry fails too while the disk shows an old value
        raise Overtaken
    PushJournal.objects.filter(repo=move.repo, push=push).delete()
    apply_moves(move.repo, [move], facts)
    lock(pull)
    # `lock` has read the pull again; set these from rows at hand, which saves queries.
    pull.merged_by, pull.thread.last_activity_at = merge.by.user, pull.updated_at


def _release_lease(attempt: MergeAttempt) -> None:
    """End a failed merge. If git has moved the ref nevertheless, write its rows first."""
    if attempt.push is not None:
        settle(repo=attempt.pull.repo, push=attempt.push)
    MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token).delete()


def _keep_position(merge: Merge, attempt: MergeAttempt) -> None:
    """End a merge whose turn did not come, without lease and plan, but keep its position for a
    repeat. Also deletes expired positions.
    """
    now, pull = timezone.now(), merge.pull
    if attempt.push is not None:
        settle(repo=pull.repo, push=attempt.push)
    with transaction.atomic():
        lock(pull)
        own = MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token)
        if pull.is_active:
            identity = {"actor": merge.by.user, "strategy": merge.strategy}
            plan = {"push": None, "head_sha": None, "result_sha": None}
            own.update(leased_until=now, queued_at=attempt.queued_at, **identity, **plan)
        else:
            own.delete()
    MergeAttempt.without_plan(now - dt.timedelta(seconds=POSITION_SECONDS)).delete()


def _renew(attempt: MergeAttempt, seconds: int, **values: Any) -> None:
    """Extend the lease and store these values in its row; 409 if the lease is lost."""
    attempt.renew(seconds)
    own = MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token)
    if not own.update(leased_until=attempt.leased_until, **values):
        raise rules.merge_in_progress(attempt.pull)


def _check_lease(attempt: MergeAttempt) -> None:
    """409 if another merge has taken over the lease. Call it inside a transaction."""
    stored = MergeAttempt(pk=attempt.pk)
    with suppress(NotFound):
        lock(stored)
        if stored.token == attempt.token:
            return
    raise rules.merge_in_progress(attempt.pull)
