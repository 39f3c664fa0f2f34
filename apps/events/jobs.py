"""The job of the audit log, for `settings.JOBS`: delete old entries."""

from __future__ import annotations

from django.utils import timezone

from apps.events.audit import prune
from apps.jobs.worker import OnDone


def prune_audit(on_done: OnDone) -> bool:
    """Delete the entries that are older than `AUDIT_DAYS`. Returns False: nothing is left to do."""
    if number := prune(timezone.now()):
        on_done(f"{number} entries of the audit log deleted")
    return False
