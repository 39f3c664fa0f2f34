"""The job of pulls, for `settings.JOBS`: make what versions lack."""

from __future__ import annotations

import logging

from django.utils import timezone

from apps.jobs.worker import OnDone
from apps.pulls.models import PullVersion
from apps.pulls.versions import complete

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
