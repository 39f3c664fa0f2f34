"""The actions that set and cancel an auto-merge, which the worker carries out (`pulls/jobs.py`)."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import Change, record_all
from apps.git.merge import Strategy
from apps.pulls import rules
from apps.pulls.auto_merge import SAVED, data_of, end, ended
from apps.pulls.models import AutoMerge, AutoMergeEnd, Pull, PullStatus
from apps.repos.access import RepoAccess


@transaction.atomic
def set_auto_merge(
    *,
    access: RepoAccess,
    pull: Pull,
    strategy: str = Strategy.MERGE,
    expected_head_sha: str | None = None,
    expected_target_branch: str | None = None,
    message: str | None = None,
    delete_source_branch: bool = False,
) -> None:
    """Let the worker merge the pull as soon as nothing blocks it, as this person. Replaces an
    earlier auto-merge; the same one again changes nothing. Locks the repository, then the pull.

    Requires write access. The message and the branch: as in `merge_pull`. Errors: 422; 409
    `pull_already_merged`, `pull_closed`, `branch_missing`, `head_changed`, `target_changed`.
    """
    access.require_change(Level.WRITE)
    access.check_holds(pull)
    rules.check_message(message, Strategy(strategy))
    access.locked()  # a change of protections, which ends auto-merges, has the same lock
    lock(pull)
    rules.check_target(pull, expected_target_branch)
    if pull.status != PullStatus.DRAFT:
        rules.check_unblocked(rules.state_blockers(pull))
    source, target = pull.tips()
    if source is None or target is None:
        raise rules.MergeRefused([rules.missing_branch(pull, source)])
    rules.check_head(source, expected_head_sha)
    before, user = pull.auto_merge, access.user
    since = before.set_at if before is not None else timezone.now()
    new = AutoMerge(Strategy(strategy), source, user.pk, since, message, delete_source_branch)
    if before == new:
        return
    events = ended(pull, AutoMergeEnd.REPLACED, user)
    pull.set_auto_merge(replace(new, set_at=timezone.now()))
    pull.auto_merge_by = user
    pull.touch()
    pull.save(update_fields=SAVED)
    was_set = Change(Kind.AUTO_MERGE_SET, user, pull, data_of(user, strategy, source))
    record_all([*events, was_set])


@transaction.atomic
def cancel_auto_merge(*, access: RepoAccess, pull: Pull) -> None:
    """End the auto-merge of a pull; requires write access. 404 if it has none. Locks the pull."""
    access.require_change(Level.WRITE)
    access.check_holds(pull)
    lock(pull)
    if pull.auto_merge is None:
        raise NotFound("not_found", f"Pull {pull.number} has no auto-merge.")
    record_all(end(pull, AutoMergeEnd.CANCELLED, access.user))


@transaction.atomic
def end_auto_merge(
    *, access: RepoAccess, pull: Pull, auto_merge: AutoMerge, reason: AutoMergeEnd
) -> None:
    """End this auto-merge, which the worker could not carry out with the access of its person. Does
    nothing if it has ended already. The event has no actor. Locks the pull.
    """
    access.check_holds(pull)
    lock(pull)
    if pull.auto_merge == auto_merge:
        record_all(end(pull, reason, None))
