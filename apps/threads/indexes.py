"""The orders in which threads are listed: those of one repository, and those of all.

Each index ends in the order of its list, so that a page is read from its first row on and no
further, and begins with what a filter of that list leaves one value of.
"""

from __future__ import annotations

from django.db.models import Index, Q

from apps.threads.kinds import Priority, ThreadKind

LISTED = Q(deleted_at=None) & ~Q(kind=ThreadKind.PULL.value)
"""The condition of the lists and of their indexes: one, or the indexes would not serve."""
OF_PULL = Q(kind=ThreadKind.PULL.value)
"""The same for the threads of pulls, which are never deleted."""
ACTIVITY = ("-last_activity_at", "-uuid")
"""The order of lists across repositories. A cursor in it tells nothing of the rows between."""
UNUSUAL = LISTED & ~Q(priority=Priority.NORMAL.value)
INDEXES = [
    Index(fields=["repo", "-number"], name="thread_list", condition=LISTED),
    Index(fields=["repo", *ACTIVITY], name="thread_activity", condition=LISTED),
    Index(fields=["created_by", *ACTIVITY], name="thread_of_author"),
    Index(fields=ACTIVITY, name="thread_across", condition=LISTED),
    Index(fields=["status", *ACTIVITY], name="thread_status", condition=LISTED),
    Index(fields=["kind", *ACTIVITY], name="thread_kind", condition=LISTED),
    Index(fields=["priority", *ACTIVITY], name="thread_priority", condition=UNUSUAL),
    Index(fields=ACTIVITY, name="pull_across", condition=OF_PULL),
    Index(fields=["status", *ACTIVITY], name="pull_status", condition=OF_PULL),
    Index(fields=["repo", *ACTIVITY], name="pull_activity", condition=OF_PULL),
]
