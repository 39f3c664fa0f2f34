"""The jobs of pulls, for `settings.JOBS`: make what versions lack, and look for conflicts."""

from __future__ import annotations

import datetime as dt
import logging

from django.utils import timezone

from apps.git import cache
from apps.git.repo import version_ref
from apps.jobs.worker import OnDone
from apps.pulls.heads import fetch_commit
from apps.pulls.models import IS_UNCHECKED, Pull, PullVersion
from apps.pulls.versions import putting_off, read_contents
from apps.repos.rules import ZERO

LATER = dt.timedelta(minutes=10)
"""For so long a pull waits about whose conflicts git could not tell."""
logger = logging.getLogger(__name__)


def complete_next_version(_: OnDone = lambda _: None) -> bool:
    """Make what the version lacks that has waited longest; False when none waits.

    A worker that dies leaves it as it is; what two make at once is the same.
    """
    due = PullVersion.objects.filter(due_at__lte=timezone.now()).order_by("due_at", "id")
    version = due.select_related("pull__repo", "pull__source_repo").first()
    if version is None:
        return False
    try:
        complete(version)
    except Exception:  # it is put off, and holds up no other
        logger.warning("%s could not be completed", version, exc_info=True)
    return True


def complete(version: PullVersion) -> None:
    """Make what a version lacks, its ref or its contents: a process has died, git could not tell,
    or the version is older than these. `GitError`, and then it is put off.
    """
    due_at = version.due_at
    with putting_off(version):
        make_ref(version)
        read_contents(version)
    # Unless it has come to have a base meanwhile.
    PullVersion.objects.filter(pk=version.pk, due_at=due_at).update(due_at=None)


def make_ref(version: PullVersion) -> None:
    """Keep the commits of a version, unless its ref does already. `GitError`."""
    pull, head = version.pull, version.head_sha
    git, ref = pull.repo.git, version_ref(pull.number, version.version)
    present = git.ref(ref)
    if present != head:
        fetch_commit(pull, head)
        git.update_ref(ref, head, present or ZERO)


def check_next_conflict(_: OnDone = lambda _: None) -> bool:
    """Store whether the pull that has waited longest has a conflict, or nothing to merge; False
    when none waits.

    The answer is of two commits: if one of the branches has moved meanwhile, it is not stored, and
    the pull waits again.
    """
    due = Pull.objects.filter(IS_UNCHECKED, conflict_due_at__lte=timezone.now())
    pull = due.select_related("repo").order_by("conflict_due_at", "id").first()
    if pull is None:
        return False
    same = Pull.objects.filter(pk=pull.pk, base_sha=pull.base_sha, head_sha=pull.head_sha)
    try:
        nothing = has_nothing_to_merge(pull)
        tree = cache.merged_tree(pull.repo.git, str(pull.base_sha), str(pull.head_sha))
    except Exception:  # it is put off, and holds up no other
        logger.warning("no conflicts could be looked for in %s", pull, exc_info=True)
        same.update(conflict_due_at=timezone.now() + LATER)
    else:
        same.update(has_conflict=tree is None, nothing_to_merge=nothing, conflict_due_at=None)
    return True


def has_nothing_to_merge(pull: Pull) -> bool:
    """Whether the target contains the head. The stored number of commits is also 0 where git could
    not tell it.
    """
    base, head = str(pull.base_sha), str(pull.head_sha)
    return not pull.commit_count and pull.repo.git.merge_base(base, head) == head
