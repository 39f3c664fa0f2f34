"""The job of pages (`settings.JOBS`): prepare the changes of pulls before anybody looks at them."""

from __future__ import annotations

import logging

from django.utils import timezone

from apps.jobs.leases import LEASE
from apps.jobs.worker import OnDone
from apps.pulls.models import PullVersion
from apps.pulls.versions import files_of, patches_of
from apps.pulls.views import PATCHES_PER_PAGE
from apps.web.diffs import cache_rows
from apps.web.pulls import difference_of

THROTTLE_KEY = "the worker"
logger = logging.getLogger(__name__)


def prepare_next_changes(_: OnDone = lambda _: None) -> bool:
    """Cache the changes of the version that has been due longest; False if none is.

    Older versions of a pull and those of closed pulls are skipped. A failure is not repeated: the
    first look then asks git itself.
    """
    now = timezone.now()
    due = PullVersion.objects.filter(changes_due_at__lte=now).order_by("changes_due_at", "id")
    version = due.select_related("pull__repo").first()
    if version is None:
        return False
    lease = now + LEASE
    row = PullVersion.objects.filter(pk=version.pk)
    if not row.filter(changes_due_at=version.changes_due_at).update(changes_due_at=lease):
        return True  # another worker was faster
    if version.pull.is_active and version.version == version.pull.last_version:
        try:
            cache_changes(version)
        except Exception:
            logger.warning("The changes of %s could not be prepared", version, exc_info=True)
    row.filter(changes_due_at=lease).update(changes_due_at=None)
    return True


def cache_changes(version: PullVersion) -> None:
    """Cache the rows and patches of the first pages of `…/files`; the errors of these pages."""
    cache_rows(difference_of(version, None, THROTTLE_KEY))
    listing = files_of(version, THROTTLE_KEY)
    patches_of(listing, listing.files[:PATCHES_PER_PAGE], THROTTLE_KEY)
