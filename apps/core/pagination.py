"""Pages of lists without COUNT: one row more than requested shows if there is a next page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from django.db.models import IntegerField, Subquery
from django.http import QueryDict
from django.utils.encoding import escape_uri_path
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.errors import Invalid
from apps.core.query import number

PAGE_LIMIT = 10**9
PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100
MOST_COUNTED = 99
"""The highest number that is shown to people; more rows are shown as `99+`."""


class Sliceable(Protocol):
    def __getitem__(self, part: slice, /) -> Iterable[Any]: ...


def count_parameter(query: QueryDict, name: str, default: int) -> int:
    """`page` or `per_page` of a request; 422 unless it is an integer from 1."""
    texts = query.getlist(name)
    if not texts:
        return default
    try:
        return number(texts[-1], least=1, most=PAGE_LIMIT)
    except ValueError as error:
        raise Invalid("validation_failed", f"{name}: {error}") from None


def slice_page(rows: Sliceable, page: int, per_page: int) -> tuple[list[Any], bool]:
    """The rows of a page, counted from 1, and whether there are more."""
    start = (page - 1) * per_page
    page_rows = list(rows[start : start + per_page + 1])
    return page_rows[:per_page], len(page_rows) > per_page


def count_text(rows: Any) -> str:
    """The number of rows as a text; it counts no further than `MOST_COUNTED` and one."""
    return counted(rows[: MOST_COUNTED + 1].count())


def counted(count: int) -> str:
    """A number of rows as a text; at most `MOST_COUNTED` and one were counted."""
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count)


class CountOf(Subquery):
    """The number of rows, as a part of another query; it counts up to `MOST_COUNTED` and one."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()

    def __init__(self, rows: Any) -> None:
        super().__init__(rows.order_by().values("pk")[: MOST_COUNTED + 1])


def with_parameters(query: QueryDict, **changed: object) -> str:
    """A query string with some parameters changed; None removes one."""
    copied = query.copy()
    for name, value in changed.items():
        copied.pop(name, None)
        if value is not None:
            copied[name] = str(value)
    return urlencode([(name, value) for name, values in copied.lists() for value in values])


class ApiPagination(BasePagination):
    """Reads the parameters of a page before anything is looked up; an envelope has three fields."""

    parameters: tuple[dict[str, Any], ...] = ()
    """Its query parameters, as in the OpenAPI document."""

    def read(self, request: Request, base_url: str) -> None:
        """Read the parameters of the request; 422."""
        self.request, self.base_url = request, base_url
        per_page = count_parameter(request.query_params, "per_page", PER_PAGE_DEFAULT)
        self.per_page = min(per_page, PER_PAGE_MAX)

    def names(self) -> list[str]:
        """The names of its query parameters."""
        return [parameter["name"] for parameter in self.parameters]

    def link(self, **changed: object) -> str:
        """The address of this request with some query parameters changed; None removes one."""
        query = with_parameters(self.request.query_params, **changed)
        return f"{self.base_url}{escape_uri_path(self.request.path)}?{query}"

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [*self.parameters]

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        """The envelope around an array of records."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": link, "previous": link},
        }


def count_schema(name: str, default: int, description: str) -> dict[str, Any]:
    bounds = {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT, "default": default}
    return {"in": "query", "name": name, "schema": bounds, "description": description}


PER_PAGE = count_schema(
    "per_page", PER_PAGE_DEFAULT, f"A number over {PER_PAGE_MAX} counts as {PER_PAGE_MAX}."
)


class PagePagination(ApiPagination):
    """Pages by number, from 1. `next` and `previous` are absolute and keep the other parameters."""

    parameters = (
        count_schema("page", 1, "Number of the page, from 1. A page past the end is empty."),
        PER_PAGE,
    )

    pinned: Mapping[str, str] = {}
    """Query parameters of the links to other pages, which replace those of this request."""

    def read(self, request: Request, base_url: str) -> None:
        self.page = count_parameter(request.query_params, "page", 1)
        super().read(request, base_url)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        rows, self.has_next = slice_page(queryset, self.page, self.per_page)
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        after, before = (self.link(page=self.page + step, **self.pinned) for step in (1, -1))
        return Response(
            {
                "results": data,
                "next": after if self.has_next else None,
                "previous": before if self.page > 1 else None,
            }
        )
