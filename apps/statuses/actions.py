"""The action that reports a status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.core.access import Level
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import Change, Keys, Recorded, Target, record_all
from apps.repos.access import RepoAccess
from apps.repos.auto_merge import auto_merges
from apps.repos.queries import pulls_of_code
from apps.statuses import rules
from apps.statuses.models import CommitChecks, CommitStatus, StatusState

STATUSES_PER_CONTEXT = 100
"""Number of statuses that are kept for each context of a commit. Older ones are deleted."""


@dataclass(frozen=True)
class StatusOfPull:
    """A status of the head of a pull, as the subject of an event of the pull."""

    status: CommitStatus
    pull: Recorded

    def event_keys(self) -> Keys:
        return self.pull.event_keys()

    def event_target(self) -> Target:
        return self.status.event_target()

    def event_title(self) -> str | None:
        return self.pull.event_title()


def create_status(
    *,
    access: RepoAccess,
    sha: str,
    context: str,
    state: str,
    description: str = "",
    target_url: str = "",
) -> CommitStatus:
    """Report a status of a commit; requires write access. Locks no repository, and of the pulls
    with this head only those with an auto-merge.

    An event `status-created` for each active pull with this head, or one of the repository. Errors:
    404 for a commit that is not stored, 409 `repo_archived`, 503 if git fails.
    """
    access.require_change(Level.WRITE)
    rules.check_commit(access.repo, sha)
    status = CommitStatus(
        repo=access.repo,
        sha=sha,
        context=context,
        state=StatusState(state),
        description=description,
        target_url=target_url,
        created_by=access.user,
    )
    return _add(access, status)


@final_transaction
def _add(access: RepoAccess, status: CommitStatus) -> CommitStatus:
    CommitChecks.objects.bulk_create(
        [CommitChecks(repo=status.repo, sha=status.sha, state=status.state)], ignore_conflicts=True
    )
    checks = CommitChecks.objects.get(repo=status.repo, sha=status.sha)
    # A concurrent report of the same commit waits for this lock, and then reads this status.
    lock(checks)
    status.save(force_insert=True)
    _delete_oldest(status)
    rows = CommitStatus.objects.of_commit(status.repo, status.sha).latest_by("context")
    # Distinct, because a commit may have thousands of contexts.
    checks.state = rules.combined(rows.values_list("state", flat=True).distinct())
    checks.save(update_fields=["state"])
    pulls = pulls_of_code().active_with_head(status.repo, status.sha)
    auto_merges().wake(pulls)
    record_all([_event(access, status, about) for about in _subjects(status, pulls)])
    return status


def _delete_oldest(status: CommitStatus) -> None:
    rows = CommitStatus.objects.of_commit(status.repo, status.sha).filter(context=status.context)
    ids = rows.order_by("-id").values_list("pk", flat=True)
    for oldest in ids[STATUSES_PER_CONTEXT : STATUSES_PER_CONTEXT + 1]:
        rows.filter(pk__lte=oldest).delete()


def _subjects(status: CommitStatus, pulls: Sequence[Recorded]) -> Sequence[Recorded]:
    return [StatusOfPull(status, pull) for pull in pulls] or [status]


def _event(access: RepoAccess, status: CommitStatus, about: Recorded) -> Change:
    data = {"sha": status.sha, "context": status.context, "state": str(status.state)}
    return Change(Kind.STATUS_CREATED, access.user, about, data)
