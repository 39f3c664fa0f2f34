"""Pages of the audit log, by cursor, as those of events."""

from __future__ import annotations

from apps.core.pagination import PER_PAGE
from apps.events.pagination import EventCursorPagination, cursor_schema

CURSOR_TEXT = "Cursor: the id of any entry, also of one that does not match."


class AuditCursorPagination(EventCursorPagination):
    """Pages of an `AuditQuerySet`."""

    parameters = (
        cursor_schema("before_id", f"{CURSOR_TEXT} The page has the newest entries before it."),
        cursor_schema(
            "after_id", f"{CURSOR_TEXT} The page has the entries that directly follow it."
        ),
        PER_PAGE,
    )
