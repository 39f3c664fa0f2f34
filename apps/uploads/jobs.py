"""The job of uploads: remove uploads that no text refers to, and files without a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from django.db import transaction
from django.utils import timezone

from apps.jobs.worker import OnDone
from apps.uploads import files
from apps.uploads.models import AGE, Upload, remove_file_without_row

LEFTOVER = 3600.0
"""Seconds after which a temporary file is no longer in use."""
BATCH = 500
"""Most rows that one transaction deletes, and most files that one query looks up."""


def sweep_uploads(on_done: OnDone) -> bool:
    """Remove unused uploads, then files without a row, in batches of constant memory."""
    rows = remove_unused()
    removed = sum(map(remove_file_without_row, _without_row(files.stored())))
    removed += files.store().remove_leftovers(LEFTOVER)
    if rows or removed:
        on_done(f"{rows} unused uploads and {removed} files removed")
    return False


def remove_unused() -> int:
    """Remove rows of uploads that are a day old and that no text refers to; return their number."""
    return sum(iter(_remove_some_unused, 0))


@transaction.atomic
def _remove_some_unused() -> int:
    """Remove the oldest unused uploads. A text that refers to one waits for the lock, and then the
    upload is gone.
    """
    old = Upload.objects.filter(is_used=False, created_at__lt=timezone.now() - AGE)
    rows = old.order_by("created_at").select_for_update(skip_locked=True)[:BATCH]
    return Upload.objects.filter(pk__in=[row.pk for row in rows]).delete()[0]


def _without_row(digests: Iterable[str]) -> Iterator[str]:
    remaining = iter(digests)
    while batch := list(islice(remaining, BATCH)):
        used = set(Upload.objects.filter(sha256__in=batch).values_list("sha256", flat=True))
        yield from (digest for digest in batch if digest not in used)
