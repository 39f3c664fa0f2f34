"""Merging a pull exactly once, whatever runs at the same time and wherever a process dies.

Four steps: take a lease; build the commit's objects; take a place in the target's queue and, when
it is the first, store the plan; move the ref and write the rows in one transaction. If a process
dies in the last, `settle` writes the rows, from journal and attempt. docs/pulls.md says more.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from time import monotonic, sleep
from typing import Any, TypeAlias

from django.db import transaction
from django.db.models import Q
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
from apps.git.run import GitError
from apps.git.tips import tip_of, tip_of_commit
from apps.pulls import rules
from apps.pulls.approval import all_blockers, approval_of, read_approval
from apps.pulls.models import MergeAttempt, Pull
from apps.pulls.sources import fetch_commit
from apps.repos.access import RepoAccess
from apps.repos.models import PushJournal, Ref
from apps.repos.pushes import apply_moves, is_doubted, open_journal, read_facts, settle
from apps.repos.rules import RefMove
from apps.repos.tips import know_stored

BUDGET = 20.0
"""Seconds in which a merge has to get its turn: as long as any request waits for a lock."""
LEASE_SECONDS = 25
"""A little more: while its commit is built, a merge keeps others of the same pull away."""
TURN_SECONDS = 10
"""The lease of a merge with a place in the queue, which it renews while it waits: one whose process
has died holds up the others for no longer."""
PAUSE = 0.02
"""Seconds between two looks at the queue for each merge that is ahead; half a second at most."""
PLACE_SECONDS = 60
"""How long a merge that was refused for its turn keeps its place for a repeat."""
LONGEST_RETRY = 20
"""The largest `Retry-After` of such a refusal, in seconds."""
Tips: TypeAlias = tuple[str | None, str | None]
"""The head that a pull shows, and the tip of its target; None for one that is missing."""
OF_PULL = Statement(lambda: MergeAttempt.objects.filter(pull=Parameter("pull")))
logger = logging.getLogger(__name__)


class Overtaken(Exception):
    """The tips are not those of the plan any more."""


class TurnMissed(Unavailable):
    """503: the merge's turn has not come in time, and may come in so many seconds. Its place is
    kept.
    """

    def __init__(self, seconds: float = 0) -> None:
        retry_after = min(max(1, ceil(seconds)), LONGEST_RETRY)
        super().__init__(*PLAIN[503], headers={"Retry-After": str(retry_after)})


@dataclass(frozen=True)
class Merge:
    """What was asked for: by whom, how, and at which head if the caller said so."""

    by: RepoAccess
    pull: Pull
    strategy: Strategy
    expected_head: str | None
    ends: float
    """When its time is up, by the monotonic clock."""


@dataclass(frozen=True)
class Plan:
    """The move of the target that carries the merge out, and the head that is merged by it.

    `content`: what the new tip is made of, where it was written for this; `seconds`: how long its
    objects took to build.
    """

    move: RefMove
    head: str
    content: bytes
    seconds: float

    def facts(self, pull: Pull, strategy: Strategy) -> GitFacts:
        """What the target leads to, and how far it moves, as far as that is known without git."""
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
    by: RepoAccess,
    pull: Pull,
    merge_strategy: str = Strategy.MERGE,
    expected_head_sha: str | None = None,
    asked_since: dt.datetime | None = None,
) -> None:
    """Merge the pull's head into its target; events `branch-pushed`, then `pull-merged`.

    `asked_since`: when the caller first asked for it, if that process may have died: a merge of
    theirs that was made since then is the one. Needs write access, at the end too.

    Errors: 409 with all blockers (docs/pulls.md), `head_changed`, `merge_in_progress`; 503 when git
    fails, or its turn does not come within 20 seconds: then it keeps its place for a repeat. Locks:
    the pull to take the lease; at the end the repository, then the pull.
    """
    by.require_change(Level.WRITE)
    by.check_holds(pull)
    ends = monotonic() + BUDGET
    merge = Merge(by, pull, Strategy(merge_strategy), expected_head_sha, ends)
    try:
        _merge(merge, _check_blockers(merge))
    except Conflict:
        if asked_since is None or not _is_made_since(asked_since, merge):
            raise
    except GitError as error:
        # Too slow, or a ref that stays locked: it may go well the next time.
        logger.exception("merging pull %s of repository %s", pull.number, pull.repo.uuid)
        raise git_failed(error) from None


def _is_made_since(moment: dt.datetime, merge: Merge) -> bool:
    """Whether the caller has merged the pull since then, in just this way. Reads it anew."""
    pull = merge.pull
    with transaction.atomic():
        lock(pull)
        lock(pull.thread)
    same = (pull.merged_by_id, pull.merge_strategy) == (merge.by.user.pk, merge.strategy)
    seen = merge.expected_head in {None, pull.head_sha}
    return same and seen and pull.merged_at is not None and pull.merged_at >= moment


def _check_blockers(merge: Merge) -> Tips:
    """Refuse with all blockers, as far as they can be known before the lease; returns the tips."""
    pull = merge.pull
    approval, refused = approval_of(pull), bool(rules.state_blockers(pull))
    tips: Tips = (None, None)

    def git_says(target: str, source: str) -> rules.Blocker | None:
        nonlocal tips
        tips = (source, target)
        if not refused:
            rules.check_head(source, merge.expected_head)
        fetch_commit(pull, source)
        if not refused and not approval.blockers():
            return None  # git is asked with the lease, when the commit is built
        with pull.repo.git.dry() as dry:
            built = _build(merge, dry, target, source)
        return None if isinstance(built, Built) else built

    rules.check_unblocked(all_blockers(pull, approval, git_says))
    return tips


def _merge(merge: Merge, tips: Tips) -> None:
    attempt = _take_lease(merge)
    try:
        if attempt.push is not None:
            _settle_earlier(attempt, attempt.push)
            tips = merge.pull.tips()
        _try_merge(merge, attempt, _plan(merge, tips))
    except TurnMissed:
        _keep_place(merge, attempt)
        raise
    except BaseException:
        _release_lease(attempt)
        raise


@transaction.atomic
def _take_lease(merge: Merge) -> MergeAttempt:
    """Take the lease, or an expired one with the plan of whoever held it; 409 while one runs."""
    pull = merge.pull
    lock(pull)
    rules.check_unblocked(rules.state_blockers(pull))
    attempt: MergeAttempt | None = OF_PULL.first(pull=pull.pk)
    place = None
    if attempt is None:
        attempt = MergeAttempt(actor=merge.by.user, strategy=merge.strategy)
    else:
        if attempt.leased_until > timezone.now():
            raise _in_progress(pull)
        place = _kept_place(merge, attempt)
    attempt.pull, attempt.token, attempt.queued_at = pull, uuid.uuid4(), None
    attempt.renew(LEASE_SECONDS)
    attempt.save()
    attempt.queued_at = place  # stored once the commit is built: until then it holds up nobody
    return attempt


def _kept_place(merge: Merge, attempt: MergeAttempt) -> dt.datetime | None:
    """The place in the queue of the same merge, if it was refused or has died a moment ago."""
    same = (attempt.actor_id, attempt.strategy) == (merge.by.user.pk, merge.strategy)
    is_recent = attempt.leased_until > timezone.now() - dt.timedelta(seconds=PLACE_SECONDS)
    return attempt.queued_at if same and is_recent else None


def _settle_earlier(attempt: MergeAttempt, push: uuid.UUID) -> None:
    """Write the rows of an earlier merge of this pull that died; 409 if that has merged it."""
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
        facts = read_facts(merge.pull.repo, [plan.move], plan.facts(merge.pull, merge.strategy))
        read_approval(merge.pull, facts)
        try:
            _move_target(merge, attempt, plan, push, facts)
            return
        except Overtaken:
            pass
        # The rows are behind git, or the tips have moved: bring the rows up to git, then try again.
        settle(repo=merge.pull.repo, push=push)
        attempt.push = None
        if monotonic() > merge.ends:
            raise TurnMissed


def _wait_for_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> None:
    """Return when no merge into the same target that was queued earlier is under way; 503 if that
    takes too long. `Retry-After` is an estimate: each of those ahead has a commit to build too.

    Only order comes from this: should two merges take their turn at once, because a lease has
    expired or been taken over, one finds the target moved and tries again.
    """
    while ahead := _ahead(attempt):
        if monotonic() > merge.ends:
            raise TurnMissed(ahead * plan.seconds)
        if attempt.leased_until < timezone.now() + dt.timedelta(seconds=TURN_SECONDS / 2):
            _renew(attempt, TURN_SECONDS)
        give_back_connection()
        sleep(min(PAUSE * ahead, 0.5))


def _ahead(attempt: MergeAttempt) -> int:
    """How many merges into the same target are under way, and were queued earlier or have stored
    their plan: a repeat may have an earlier place than a merge whose turn has come.
    """
    pull, place = attempt.pull, attempt.queued_at
    earlier = Q(queued_at__lt=place) | Q(queued_at=place, pk__lt=attempt.pk)
    queue = MergeAttempt.objects.filter(
        pull__repo=pull.repo_id, pull__target_branch=pull.target_branch
    )
    others = queue.filter(leased_until__gt=timezone.now(), queued_at__isnull=False)
    return others.exclude(pk=attempt.pk).filter(earlier | Q(push__isnull=False)).count()


def _plan_of_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> Plan:
    """The plan if the tips are still those, else another one, while the others wait: 503 unless as
    much time is left as the first has taken.
    """
    tips = merge.pull.tips()
    if tips == (plan.head, plan.move.old):
        return plan
    if monotonic() + plan.seconds > merge.ends:
        raise TurnMissed
    _renew(attempt, LEASE_SECONDS)
    return _plan(merge, tips)


def _plan(merge: Merge, tips: Tips) -> Plan:
    """Write the commit's objects, to which no ref points yet, and say which ref should move."""
    pull, began = merge.pull, monotonic()
    source, target = tips
    if source is None or target is None:
        raise rules.refuse([rules.missing_branch(pull, source)])
    if (pull.base_sha, pull.head_sha) != (target, source):  # others were merged meanwhile
        pull.refresh_from_db(fields=["base_sha", "head_sha", "commit_count"])
    rules.check_head(source, merge.expected_head)
    fetch_commit(pull, source)
    built = _build(merge, pull.repo.git, target, source)
    if not isinstance(built, Built):
        blocker = built
        raise rules.refuse(all_blockers(pull, approval_of(pull), lambda *_: blocker))
    move = RefMove(pull.repo, pull.target_ref, target, built.sha, merge.by.user)
    return Plan(move, source, built.content, seconds=monotonic() - began)


def _build(merge: Merge, git: GitRepo, target: str, head: str) -> Built | rules.Blocker:
    """The commit that merges the two, or what git says against it."""
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
            message=rules.merge_message(merge.pull, merge.strategy),
            when=timezone.now(),
            ahead=merge.pull.commits_between(target, head),
        )
    return outcome if isinstance(outcome, Built) else rules.outcome_blocker(outcome)


@transaction.atomic
def _take_turn(merge: Merge, attempt: MergeAttempt, plan: Plan) -> uuid.UUID | None:
    """Take a place in the queue and, if nobody is ahead and the tips are those of the plan, store
    that: it is committed before git may carry it out. None if not; 409 when the lease is lost.
    """
    move = plan.move
    hold(merge.pull.merge_queue)  # so that of two which come at once one sees the other
    attempt.queued_at = attempt.queued_at or timezone.now()
    stored: dict[str, Any] = {"queued_at": attempt.queued_at, "push": None}
    if not _ahead(attempt) and merge.pull.tips() == (plan.head, move.old):
        step = (move.full_name, move.old, move.new)
        attempt.push = open_journal(actor=merge.by.user, repo=move.repo, moves=[step])
        stored |= {"actor": merge.by.user, "strategy": merge.strategy, "push": attempt.push}
        stored |= {"head_sha": plan.head, "result_sha": move.new}
    _renew(attempt, TURN_SECONDS, **stored)
    return attempt.push


@final_transaction
def _move_target(
    merge: Merge, attempt: MergeAttempt, plan: Plan, push: uuid.UUID, facts: GitFacts
) -> None:
    """Move the ref and write the rows; `Overtaken`."""
    pull, move = merge.pull, plan.move
    lock(pull.repo)
    lock(pull)
    _check_lease(attempt)
    rules.check_unblocked(rules.state_blockers(pull))
    merge.by.renewed().require_change(Level.WRITE)
    if pull.tips() != (plan.head, move.old):
        raise Overtaken
    # Reviewers, admins and pushes take the same locks, so this holds until they are released.
    rules.check_unblocked(approval_of(pull, facts).blockers())
    if not move.repo.git.update_ref(move.full_name, move.new, move.old):
        if is_doubted(move.repo, move.full_name):
            raise unavailable()  # to try again would not help before the disk is right
        raise Overtaken
    PushJournal.objects.filter(repo=move.repo, push=push).delete()
    apply_moves(move.repo, [move], facts)
    lock(pull)
    # What the rows say, with the person loaded, and without loading the thread once more.
    pull.merged_by, pull.thread.last_activity_at = merge.by.user, pull.updated_at


def _release_lease(attempt: MergeAttempt) -> None:
    """End a merge that has failed. If git has moved the ref all the same, write its rows first."""
    if attempt.push is not None:
        settle(repo=attempt.pull.repo, push=attempt.push)
    MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token).delete()


def _keep_place(merge: Merge, attempt: MergeAttempt) -> None:
    """End a merge whose turn has not come, but keep its place for a repeat, without lease or plan:
    it holds up nobody. Removes places that nobody has come back for.
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
    MergeAttempt.without_plan(now - dt.timedelta(seconds=PLACE_SECONDS)).delete()


def _renew(attempt: MergeAttempt, seconds: int, **values: Any) -> None:
    """Extend the lease from now on, and store these values in its row; 409 when it is lost."""
    attempt.renew(seconds)
    own = MergeAttempt.objects.filter(pk=attempt.pk, token=attempt.token)
    if not own.update(leased_until=attempt.leased_until, **values):
        raise _in_progress(attempt.pull)


def _check_lease(attempt: MergeAttempt) -> None:
    """409 when the lease has expired and another merge has taken it. Inside a transaction."""
    now = MergeAttempt(pk=attempt.pk)
    with suppress(NotFound):
        lock(now)
        if now.token == attempt.token:
            return
    raise _in_progress(attempt.pull)


def _in_progress(pull: Pull) -> Conflict:
    text = f"Pull {pull.number} is being merged. Try again soon."
    return Conflict("merge_in_progress", text, headers={"Retry-After": "1"})
