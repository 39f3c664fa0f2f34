"""Pages of lists across repositories by cursor: newest activity first, `previous` can be polled."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.pagination import PER_PAGE, ApiPagination
from apps.threads.across import Across, Found, Position

CURSOR = re.compile(r"([0-9]{1,17})-([0-9a-f]{32})")
"""Microseconds since 1970, and what tells rows of the same moment apart."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
LAST = UUID(int=2**128 - 1)


def cursor_of(position: Position) -> str:
    """A place in the list as clients have it."""
    return f"{(position.at - EPOCH) // MICROSECOND}-{position.uuid.hex}"


def read_cursor(name: str, text: str) -> Position:
    """The place that a cursor names; 422 `invalid_cursor`."""
    found = CURSOR.fullmatch(text)
    if found is None:
        raise Invalid("invalid_cursor", f"{name}: {quoted(text)} is no cursor of this list.")
    return Position(EPOCH + int(found[1]) * MICROSECOND, UUID(found[2]))


def cursor_schema(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^{CURSOR.pattern}$"}
    return {"in": "query", "name": name, "schema": schema, "description": description}


class ActivityPagination(ApiPagination):
    """`before` gives what has rested for longer, `after` the page next to it, so that no burst of
    activity is skipped.

    `next` leads to older activity and `previous` to newer; an empty page of `after` names itself.
    """

    parameters = (
        cursor_schema("before", "Only what had its newest activity before this: from `next`."),
        cursor_schema("after", "Only what had activity after this, next to it: from `previous`."),
        PER_PAGE,
    )

    def read(self, request: Request, base_url: str) -> None:
        self.before, self.after = (self._cursor(request, one) for one in ("before", "after"))
        super().read(request, base_url)

    def _cursor(self, request: Request, name: str) -> Position | None:
        texts = request.query_params.getlist(name)
        return read_cursor(name, texts[-1]) if texts else None

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        """The page of an `Across`."""
        rows: Across = queryset
        if self.after is not None and self.before is None:
            return self._page_after(rows, self.after)
        return self._page_before(rows, self.before, self.after)

    def _page_before(
        self, rows: Across, before: Position | None, after: Position | None
    ) -> list[Found]:
        """The newest, or those before a place; `after` only bounds them."""
        size = self.per_page
        found = rows.find(after=after, before=before, size=size + 1, newest_first=True)
        shown = found[:size]
        newest = shown[0].position if shown else before
        self.next = self._link(before=shown[-1].position) if len(found) > size else None
        self.previous = None if newest is None else self._link(after=newest, before=None)
        return shown

    def _page_after(self, rows: Across, after: Position) -> list[Found]:
        """Those next to a place, shown newest first."""
        size = self.per_page
        shown = rows.find(after=after, before=None, size=size, newest_first=False)[::-1]
        oldest = shown[-1].position if shown else Position(after.at, LAST)
        older = rows.find(after=None, before=oldest, size=1, newest_first=True)
        self.next = self._link(before=oldest, after=None) if older else None
        self.previous = self._link(after=shown[0].position if shown else after)
        return shown

    def _link(self, **places: Position | None) -> str:
        return self.link(**{name: one and cursor_of(one) for name, one in places.items()})

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next, "previous": self.previous})
