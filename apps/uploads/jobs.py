"""What the worker does about uploads: remove what no text refers to, and files without a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from django.db import transaction
from django.utils import timezone

from apps.core.locks import hold
from apps.jobs.worker import OnDone
from apps.uploads import files
from apps.uploads.models import AGE, Upload

LEFTOVER = 3600.0
"""Seconds after which nobody writes to a temporary file any more."""
AT_ONCE = 500
"""Rows that are removed in one transaction, and files that the database is asked about at once."""


def sweep_uploads(on_done: OnDone) -> bool:
    """Remove unused uploads, then files that no row names; in batches, in constant memory."""
    rows = remove_unused()
    removed = remove_unclaimed() + files.remove_leftovers(LEFTOVER)
    if rows or removed:
        on_done(f"{rows} unused uploads and {removed} files removed")
    return False


def remove_unused() -> int:
    """Remove the rows of uploads that no text refers to and that are a day old; how many."""
    removed = 0
    while found := _remove_some():
        removed += found
    return removed


@transaction.atomic
def _remove_some() -> int:
    """The oldest of them. Whoever writes a text that refers to one waits, and then finds none."""
    old = Upload.objects.filter(is_used=False, created_at__lt=timezone.now() - AGE)
    rows = old.order_by("created_at").select_for_update(skip_locked=True)[:AT_ONCE]
    return Upload.objects.filter(pk__in=[row.pk for row in rows]).delete()[0]


def remove_unclaimed() -> int:
    """Remove the files that no row names; how many."""
    return sum(_remove_if_unclaimed(digest) for digest in _unclaimed(files.stored()))


def _unclaimed(digests: Iterable[str]) -> Iterator[str]:
    waiting = iter(digests)
    while some := list(islice(waiting, AT_ONCE)):
        claimed = set(Upload.objects.filter(sha256__in=some).values_list("sha256", flat=True))
        yield from (digest for digest in some if digest not in claimed)


@transaction.atomic
def _remove_if_unclaimed(digest: str) -> int:
    """Ask again under the lock: an upload of these bytes may just have come."""
    hold(files.lock_name(digest))
    if Upload.objects.filter(sha256=digest).exists():
        return 0
    files.remove(digest)
    return 1
