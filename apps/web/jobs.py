"""The job of pages (`settings.JOBS`): cache the changes of pulls before anybody looks at them."""

from __future__ import annotations

from apps.jobs.worker import OnDone
from apps.pulls.approval import readiness_of
from apps.pulls.jobs import with_next_changes
from apps.pulls.models import PullVersion
from apps.pulls.reviewer_suggestions import authors_of_changes
from apps.pulls.versions import files_of, patches_of
from apps.pulls.views import PATCHES_PER_PAGE
from apps.web.diffs import cache_rows
from apps.web.pulls import difference_of

THROTTLE_KEY = "the worker"


def prepare_next_changes(_: OnDone = lambda _: None) -> bool:
    """Cache the changes of the next version; False if none is due."""
    return with_next_changes(cache_changes)


def cache_changes(version: PullVersion) -> None:
    """Cache the rows and patches of the first pages of `…/files`, for this process whether the pull
    can be merged, which its header says, and the authors of the changed lines, who are suggested as
    reviewers. Raises the errors of these pages.
    """
    cache_rows(difference_of(version, None, THROTTLE_KEY))
    listing = files_of(version, THROTTLE_KEY)
    patches_of(listing, listing.files[:PATCHES_PER_PAGE], THROTTLE_KEY)
    readiness_of(version.pull)
    authors_of_changes(version, THROTTLE_KEY)
