"""The jobs of pulls (`settings.JOBS`): merge pulls that have become ready, complete versions, check
pulls for conflicts, and prepare changes for their readers (with `apps/web/jobs.py`).
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

from django.db.models import Case, When
from django.utils import timezone

from apps.accounts.principal import Principal
from apps.core.errors import ApiError, Forbidden, Unauthenticated
from apps.git import cache
from apps.git.repo import version_ref
from apps.jobs.leases import LEASE
from apps.jobs.worker import OnDone
from apps.pulls import rules
from apps.pulls.actions.auto_merging import end_auto_merge
from apps.pulls.actions.merging import AutoMergeEnded, TurnMissed, merge_pull
from apps.pulls.following import follow_due
from apps.pulls.heads import fetch_commit
from apps.pulls.models import (
    AUTO_MERGE_COLUMNS,
    HAS_AUTO_MERGE,
    IS_UNCHECKED,
    AutoMerge,
    AutoMergeEnd,
    Pull,
    PullVersion,
)
from apps.pulls.versions import putting_off, read_contents
from apps.repos.access import access_to
from apps.repos.rules import ZERO
from apps.threads.anchors import Anchor

RETRY_WAIT = dt.timedelta(minutes=10)
"""Wait after git could not tell whether a pull has conflicts, or where the lines of comments are.
"""
FOLLOWED = 500
FOLLOW_SECONDS = 60.0
"""Most comments on lines, and seconds for them, of one run of the worker."""
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
OWNERS = ("repo__owner_team", "repo__owner_user")
logger = logging.getLogger(__name__)


def try_next_auto_merge(_: OnDone = lambda _: None) -> bool:
    """Try the auto-merge that has been due longest; False if none is."""
    due = Pull.objects.filter(auto_merge_due_at__lte=timezone.now(), repo__deletion=None)
    rows = due.select_related("thread__created_by", "auto_merge_by", *OWNERS)
    pull = rows.order_by("auto_merge_due_at", "id").first()
    if pull is None:
        return False
    try_auto_merge(pull)
    return True


def try_auto_merge(pull: Pull) -> None:
    """Merge a pull with an auto-merge that is due, with the person's rights of this moment.

    If a refusal will pass, the worker tries again after a wake-up, or some minutes later; other
    refusals end the auto-merge. If this process dies, another worker tries it after a minute.
    """
    auto_merge, person = pull.auto_merge, pull.auto_merge_by
    lease = timezone.now() + LEASE
    if auto_merge is None or person is None or not put_off(pull, lease):
        return  # another worker was faster
    access = access_to(Principal(person), pull.repo)
    try:
        merge_pull(
            access=access,
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
            end_auto_merge(access=access, pull=pull, auto_merge=auto_merge, reason=reason)
        elif refusal.code == "pull_already_merged":  # by the previous version, during an upgrade
            Pull.objects.filter(pk=pull.pk).update(**dict.fromkeys(AUTO_MERGE_COLUMNS))
        else:
            put_off(pull, timezone.now() + wait_after(refusal, auto_merge))


def put_off(pull: Pull, until: dt.datetime) -> bool:
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


def complete_next_version(_: OnDone = lambda _: None) -> bool:
    """Complete the version that has been pending longest; False if none is. Needs no lease: a
    version that is completed twice is the same.
    """
    due = PullVersion.objects.filter(due_at__lte=timezone.now()).order_by("due_at", "id")
    version = due.select_related("pull__repo", "pull__source_repo").first()
    if version is None:
        return False
    try:
        complete(version)
    except Exception:  # the version is pending again later, after the others
        logger.warning("%s could not be completed", version, exc_info=True)
    return True


def complete(version: PullVersion) -> None:
    """Create the ref and read the contents of a version, if a process died before it did or git
    could not tell. `GitError`, which delays the next attempt.
    """
    due_at = version.due_at
    with putting_off(version):
        create_ref(version)
        read_contents(version)
    # If `note_base` has set a base meanwhile, the version is pending for its contents.
    PullVersion.objects.filter(pk=version.pk, due_at=due_at).update(due_at=None)


def create_ref(version: PullVersion) -> None:
    """Create the ref that keeps the commits of a version, unless it exists. `GitError`."""
    pull, head = version.pull, version.head_sha
    git, ref = pull.repo.git, version_ref(pull.number, version.version)
    present = git.ref(ref)
    if present != head:
        fetch_commit(pull, head)
        git.update_ref(ref, head, present or ZERO)


def check_next_conflict(_: OnDone = lambda _: None) -> bool:
    """Check the pull that has been pending longest for conflicts, and whether it has anything to
    merge; False if none is. A result is dropped if one of the branches has moved meanwhile.
    """
    due = Pull.objects.filter(IS_UNCHECKED, conflict_due_at__lte=timezone.now())
    pull = due.select_related("repo").order_by("conflict_due_at", "id").first()
    if pull is None:
        return False
    unmoved = Pull.objects.filter(pk=pull.pk, base_sha=pull.base_sha, head_sha=pull.head_sha)
    try:
        nothing = has_nothing_to_merge(pull)
        tree = cache.merged_tree(pull.repo.git, str(pull.base_sha), str(pull.head_sha))
    except Exception:  # the pull is pending again later, after the others
        logger.warning("%s could not be checked for conflicts", pull, exc_info=True)
        unmoved.update(conflict_due_at=timezone.now() + RETRY_WAIT)
    else:
        woken = Case(When(HAS_AUTO_MERGE, then=timezone.now()))
        unmoved.update(
            has_conflict=tree is None,
            nothing_to_merge=nothing,
            conflict_due_at=None,
            auto_merge_due_at=woken,
        )
    return True


def has_nothing_to_merge(pull: Pull) -> bool:
    """Whether the target contains the head. A stored number of 0 commits does not suffice, because
    it is also 0 if git could not tell.
    """
    base, head = str(pull.base_sha), str(pull.head_sha)
    return not pull.commit_count and pull.repo.git.merge_base(base, head) == head


def follow_next_comments(_: OnDone = lambda _: None) -> bool:
    """Look for the comments on lines that have been due longest, and others of the same pull, at
    its current head; False if none are. Needs no lease: doing it twice gives the same.
    """
    due = Anchor.objects.filter(due_at__lte=timezone.now())
    first = due.filter(thread__repo__deletion=None).order_by("due_at").values("thread")[:1]
    pull = Pull.objects.filter(thread__in=[*first.values_list("thread", flat=True)])
    for row in pull.select_related("repo", "thread"):
        anchors = [*due.filter(thread=row.thread_id).order_by("due_at").defer("snippet")[:FOLLOWED]]
        try:
            failed = follow_due(row, anchors, FOLLOW_SECONDS)
        except Exception:  # they are pending again later, after the others
            logger.warning("The comments of %s could not be followed", row, exc_info=True)
            failed = anchors
        pks = [anchor.pk for anchor in failed]
        due.filter(pk__in=pks).update(due_at=timezone.now() + RETRY_WAIT)
        return True
    return False


def with_next_changes(prepare: Callable[[PullVersion], None]) -> bool:
    """Call `prepare` with the version whose changes have been due longest; False if none are.

    Older versions of a pull and those of closed pulls are skipped. A failure is not repeated: the
    first reader then asks git. If git took too long, readers get 422 for ten minutes instead.
    """
    now = timezone.now()
    due = PullVersion.objects.filter(changes_due_at__lte=now).order_by("changes_due_at", "id")
    version = due.select_related("pull__repo").first()
    if version is None:
        return False
    row, lease = PullVersion.objects.filter(pk=version.pk), now + LEASE
    if not row.filter(changes_due_at=version.changes_due_at).update(changes_due_at=lease):
        return True  # another worker was faster
    if version.pull.is_active and version.version == version.pull.last_version:
        try:
            prepare(version)
        except Exception:
            logger.warning("The changes of %s could not be prepared", version, exc_info=True)
    row.filter(changes_due_at=lease).update(changes_due_at=None)
    return True
