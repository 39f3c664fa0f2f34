"""Pages of the list of events, by cursor: newest first, with a `previous` that clients can poll."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.pagination import PER_PAGE, ApiPagination
from apps.events.models import EventRow
from apps.events.scopes import Selection

PAST_ALL = 10**18
"""Larger than any id. A larger cursor counts as this one."""
CURSOR = {"type": "string", "pattern": "^[0-9]+$"}
CURSOR_TEXT = "Cursor, a place in the log: the id of any event, also of one that does not match."


def read_cursor(name: str, text: str) -> int:
    """The id of an event that a cursor names; 422 `invalid_cursor`."""
    if not (text.isascii() and text.isdigit()):
        raise Invalid("invalid_cursor", f"{name}: {quoted(text)} is not the id of an event.")
    return min(int(text), PAST_ALL)


def cursor_schema(name: str, description: str) -> dict[str, Any]:
    return {"in": "query", "name": name, "schema": CURSOR, "description": description}


class EventCursorPagination(ApiPagination):
    """Pages of a `Selection`. `before_id` gives older events; `after_id` gives the page right after
    an event, so that a client that polls misses nothing.

    `next` leads to older events and `previous` to newer ones; an empty page of `after_id` names
    itself.
    """

    parameters = (
        cursor_schema("before_id", f"{CURSOR_TEXT} The page has the newest events before it."),
        cursor_schema(
            "after_id", f"{CURSOR_TEXT} The page has the events that directly follow it."
        ),
        PER_PAGE,
    )

    def read(self, request: Request, base_url: str) -> None:
        names = ("before_id", "after_id")
        self.before, self.after = (self._cursor(request, name) for name in names)
        super().read(request, base_url)

    def _cursor(self, request: Request, name: str) -> int | None:
        texts = request.query_params.getlist(name)
        return read_cursor(name, texts[-1]) if texts else None

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        """A page of a `Selection`, which stands in for the queryset."""
        if self.after is not None and self.before is None:
            return self._page_after(queryset, self.after)
        return self._page_before(queryset, self.before, self.after)

    def _page_before(
        self, selection: Selection, before: int | None, after: int | None
    ) -> list[EventRow]:
        """The newest events, or those before an id; `after` only bounds them."""
        end, size = PAST_ALL if before is None else before, self.per_page + 1
        events = selection.page(after=after or 0, before=end, size=size, newest_first=True)
        page = events[: self.per_page]
        has_next = len(events) > self.per_page
        newest = page[0].id if page else None if before is None else max(before - 1, 0)
        self.next = self.link(before_id=page[-1].id) if has_next else None
        self.previous = None if newest is None else self.link(after_id=newest, before_id=None)
        return page

    def _page_after(self, selection: Selection, after: int) -> list[EventRow]:
        """The events right after an id, newest first."""
        size = self.per_page
        page = selection.page(after=after, before=PAST_ALL, size=size, newest_first=False)[::-1]
        oldest = page[-1].id if page else min(after + 1, PAST_ALL)
        older = selection.page(after=0, before=oldest, size=1, newest_first=True)
        self.next = self.link(before_id=oldest, after_id=None) if older else None
        self.previous = self.link(after_id=page[0].id if page else after)
        return page

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next, "previous": self.previous})
