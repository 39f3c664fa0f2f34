"""The end of auto-merges, and the changes after which the worker tries them again.

Each function is called in the transaction of the change that ends or wakes them (docs/pulls.md).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.locks import lock
from apps.events.kinds import Kind, PingKind
from apps.events.record import Change
from apps.pulls.approval import Eligibility
from apps.pulls.models import (
    AUTO_MERGE_COLUMNS,
    HAS_AUTO_MERGE,
    AutoMergeEnd,
    Pull,
    Review,
    ReviewStatus,
)
from apps.repos.access import access_to
from apps.repos.models import Repo, glob_matches

SAVED = [name.removesuffix("_id") for name in AUTO_MERGE_COLUMNS] + ["updated_at"]
"""The fields to save after the end of an auto-merge."""


def ended(pull: Pull, reason: AutoMergeEnd, actor: User | None) -> list[Change]:
    """End the auto-merge of a pull without saving the pull. Returns the event, which pings the
    person who set it; none without an auto-merge. The caller holds the pull's lock.
    """
    auto_merge, person = pull.auto_merge, pull.auto_merge_by
    if auto_merge is None or person is None:
        return []
    pull.set_auto_merge(None)
    may_read = access_to(Principal(person), pull.repo).level >= Level.READ
    pings = [(person, PingKind.AUTO_MERGE_ENDED)] if may_read else []
    data = {**data_of(person, auto_merge.strategy, auto_merge.head_sha), "reason": reason}
    return [Change(Kind.AUTO_MERGE_ENDED, actor, pull, data, pings)]


def end(pull: Pull, reason: AutoMergeEnd, actor: User | None) -> list[Change]:
    """`ended`, and save the pull."""
    events = ended(pull, reason, actor)
    if events:
        pull.touch()
        pull.save(update_fields=SAVED)
    return events


def data_of(person: User, strategy: str, head: str) -> dict[str, Any]:
    """The data of the events of an auto-merge."""
    return {"username": person.username, "strategy": strategy, "head_sha": head}


def follow_review(review: Review, actor: User) -> list[Change]:
    """End the auto-merge of a pull whose changes are requested by somebody whose reviews count;
    after any other review wake it. The caller holds the pull's lock.
    """
    pull = review.pull
    if pull.auto_merge is None:
        return []
    if review.status != ReviewStatus.CHANGES_REQUESTED or not _counts(review):
        wake([pull])
        return []
    return end(pull, AutoMergeEnd.CHANGES_REQUESTED, actor)


def _counts(review: Review) -> bool:
    with_role = review.pull.reviews.with_people(review.pull.repo).get(pk=review.pk)
    with_role.pull = review.pull
    return Eligibility.of(review.pull).reason_against_review(with_role) is None


def end_under(repo: Repo, patterns: Collection[str], actor: User) -> list[Change]:
    """End the auto-merges of pulls whose target matches one of these patterns of protections, and
    return their events. Locks the pulls. The caller holds the repository's lock.
    """
    events: list[Change] = []
    rows = repo.pulls.filter(HAS_AUTO_MERGE).select_related("thread", "auto_merge_by")
    for pull in rows.order_by("number"):
        if any(glob_matches(pattern, pull.target_branch) for pattern in patterns):
            pull.repo = repo
            lock(pull)
            events += end(pull, AutoMergeEnd.PROTECTION_CHANGED, actor)
    return events


def wake(pulls: Sequence[Any]) -> None:
    """Let the worker try the auto-merges of these loaded pulls now; no statement without one."""
    for pk in sorted(pull.pk for pull in pulls if pull.auto_merge_due_at is not None):
        # One after the other: a push locks pulls by number too, and there must be no deadlock.
        due = Pull.objects.filter(HAS_AUTO_MERGE, pk=pk)
        due.update(auto_merge_due_at=timezone.now())
