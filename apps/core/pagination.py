"""Pages of lists without COUNT: one row more than asked tells whether there is a next page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol
from urllib.parse import urlencode

from django.http import HttpRequest

from apps.core.parsers import PER_PAGE_MAX


class Sliceable(Protocol):
    def __getitem__(self, part: slice, /) -> Iterable[Any]: ...


def page_of(
    rows: Sliceable,
    record: Callable[[Any], dict[str, Any]],
    *,
    request: HttpRequest,
    base: str,
    page: int,
    per_page: int,
) -> dict[str, Any]:
    """The contract's Page. `next` and `previous` are absolute and keep the other parameters."""
    size = min(per_page, PER_PAGE_MAX)
    start = (page - 1) * size
    found = list(rows[start : start + size + 1])
    return {
        "results": [record(row) for row in found[:size]],
        "next": with_query(request, base, page=page + 1) if len(found) > size else None,
        "previous": with_query(request, base, page=page - 1) if page > 1 else None,
    }


def with_query(request: HttpRequest, base: str, **changed: object) -> str:
    """This request's own address with some query parameters set; None removes one."""
    query = request.GET.copy()
    for name, value in changed.items():
        query.pop(name, None)
        if value is not None:
            query[name] = str(value)
    pairs = [(name, value) for name, values in query.lists() for value in values]
    return f"{base}{request.path}?{urlencode(pairs)}"
