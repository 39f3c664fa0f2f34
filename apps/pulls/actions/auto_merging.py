"""Setting and cancelling an auto-merge, and the worker's attempts to carry it out."""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django.utils import timezone

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import ApiError, Forbidden, NotFound, Unauthenticated
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import Change, record_all
from apps.git.merge import Strategy
from apps.pulls import rules
from apps.pulls.actions.merging import AutoMergeEnded, TurnMissed, merge_pull
from apps.pulls.auto_merge import SAVED, data_of, ended
from apps.pulls.models import AUTO_MERGE_COLUMNS, AutoMerge, AutoMergeEnd, Pull, PullStatus
from apps.repos.access import RepoAccess, access_to

LEASE = dt.timedelta(seconds=60)
"""Time after which another worker tries an auto-merge, if this one has died."""
SHORTEST_WAIT = dt.timedelta(seconds=5)
LONGEST_WAIT = dt.timedelta(minutes=10)
"""Time until the worker tries a blocked auto-merge again although nothing has woken it."""
REFUSALS = {
    "head_changed",
    "repo_archived",
    "merge_conflict",
    "nothing_to_merge",
    "fast_forward_impossible",
    "strategy_differs",
    "pull_closed",
}
"""The codes of refused merges that end an auto-merge. They are also its reason."""


@transaction.atomic
def set_auto_merge(
    *, access: RepoAccess, pull: Pull, expected_head_sha: str, strategy: str = Strategy.MERGE
) -> None:
    """Let the worker merge the pull as soon as nothing blocks it, as this person. Replaces an
    earlier auto-merge; the same one again changes nothing. Locks the repository, then the pull.

    Requires write access. Errors: 409 `pull_already_merged`, `pull_closed`, `branch_missing`,
    `head_changed`.
    """
    access.require_change(Level.WRITE)
    access.check_holds(pull)
    access.locked()  # a change of protections, which ends auto-merges, has the same lock
    lock(pull)
    if pull.status != PullStatus.DRAFT:
        rules.check_unblocked(rules.state_blockers(pull))
    source, target = pull.tips()
    if source is None or target is None:
        raise rules.MergeRefused([rules.missing_branch(pull, source)])
    rules.check_head(source, expected_head_sha)
    before, user = pull.auto_merge, access.user
    new = (Strategy(strategy), source, user.pk)
    if before is not None and (before.strategy, before.head_sha, before.by_id) == new:
        return
    events = ended(pull, AutoMergeEnd.REPLACED, user)
    pull.set_auto_merge(AutoMerge(*new, timezone.now()))
    pull.auto_merge_by = user
    pull.touch()
    pull.save(update_fields=SAVED)
    data = data_of(user, strategy, source)
    record_all([*events, Change(Kind.AUTO_MERGE_SET, user, pull, data)])


@transaction.atomic
def cancel_auto_merge(*, access: RepoAccess, pull: Pull) -> None:
    """End the auto-merge of a pull; requires write access. 404 if it has none. Locks the pull."""
    access.require_change(Level.WRITE)
    access.check_holds(pull)
    lock(pull)
    if pull.auto_merge is None:
        raise NotFound("not_found", f"Pull {pull.number} has no auto-merge.")
    _end(pull, AutoMergeEnd.CANCELLED, access)


def _end(pull: Pull, reason: AutoMergeEnd, access: RepoAccess | None = None) -> None:
    """End the auto-merge of a locked pull, as this caller or as the site."""
    events = ended(pull, reason, None if access is None else access.user)
    pull.touch()
    pull.save(update_fields=SAVED)
    record_all(events)


def try_auto_merge(pull: Pull) -> None:
    """Merge a pull with an auto-merge that is due, with the person's rights of this moment.

    If a refusal will pass, the worker tries again after a wake-up, or some minutes later; other
    refusals end the auto-merge. If this process dies, another worker tries it after a minute.
    """
    auto_merge, person = pull.auto_merge, pull.auto_merge_by
    lease = timezone.now() + LEASE
    if auto_merge is None or person is None or not _put_off(pull, lease):
        return  # another worker was faster
    try:
        merge_pull(
            access=access_to(Principal(person), pull.repo),
            pull=pull,
            merge_strategy=auto_merge.strategy,
            expected_head_sha=auto_merge.head_sha,
            auto_merge=auto_merge,
        )
    except AutoMergeEnded:
        return
    except ApiError as refusal:
        pull.auto_merge_due_at = lease  # a refused merge may have reloaded it
        if reason := reason_of(refusal):
            _end_unless_changed(pull, auto_merge, reason)
        elif refusal.code == "pull_already_merged":  # by the previous version, during an upgrade
            Pull.objects.filter(pk=pull.pk).update(**dict.fromkeys(AUTO_MERGE_COLUMNS))
        else:
            _put_off(pull, timezone.now() + wait_after(refusal, auto_merge))


def _put_off(pull: Pull, until: dt.datetime) -> bool:
    """Make its auto-merge due then; False if it has ended, or was woken since it was loaded."""
    unchanged = Pull.objects.filter(pk=pull.pk, auto_merge_due_at=pull.auto_merge_due_at)
    return bool(unchanged.update(auto_merge_due_at=until))


def reason_of(refusal: ApiError) -> AutoMergeEnd | None:
    """The reason for which a refused merge ends its auto-merge; None if the refusal may pass."""
    if isinstance(refusal, Forbidden | Unauthenticated):
        return AutoMergeEnd.ACCESS_LOST
    codes = [refusal.code]
    if isinstance(refusal, rules.MergeRefused):
        codes = [blocker.code for blocker in refusal.blockers]
    ending = [code for code in codes if code in REFUSALS]
    return AutoMergeEnd(ending[0]) if ending else None


def wait_after(refusal: ApiError, auto_merge: AutoMerge) -> dt.timedelta:
    """The time after a passing refusal until the next attempt, if nothing wakes it before.

    It grows with the age of the auto-merge: the first attempt may not have seen a status that was
    being written meanwhile. A merge that waits for its turn has to repeat within a minute.
    """
    if isinstance(refusal, TurnMissed) or refusal.code == "merge_in_progress":
        return dt.timedelta(seconds=int(refusal.headers["Retry-After"]))
    return min(max(timezone.now() - auto_merge.set_at, SHORTEST_WAIT), LONGEST_WAIT)


@transaction.atomic
def _end_unless_changed(pull: Pull, auto_merge: AutoMerge, reason: AutoMergeEnd) -> None:
    lock(pull)
    if pull.auto_merge == auto_merge:
        _end(pull, reason)
