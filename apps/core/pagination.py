"""Pages of lists without COUNT: one row more than asked tells whether there is a next page."""

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
"""What people are told the number of; of more there is no telling how many."""


class Sliceable(Protocol):
    def __getitem__(self, part: slice, /) -> Iterable[Any]: ...


def count_parameter(query: QueryDict, name: str, default: int) -> int:
    """`page` or `per_page` of a request; 422 for what is no integer from 1."""
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
    found = list(rows[start : start + per_page + 1])
    return found[:per_page], len(found) > per_page


def count_text(rows: Any) -> str:
    """How many rows there are, up to `MOST_COUNTED`; it counts no further."""
    return counted(rows[: MOST_COUNTED + 1].count())


def counted(count: int) -> str:
    """A number of rows, of which no more than `MOST_COUNTED` and one were counted."""
    return f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count)


class CountOf(Subquery):
    """How many rows there are, as a part of another query; it counts `MOST_COUNTED` and one."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) counted)"
    output_field = IntegerField()

    def __init__(self, rows: Any) -> None:
        super().__init__(rows.order_by().values("pk")[: MOST_COUNTED + 1])


def with_parameters(query: QueryDict, **changed: object) -> str:
    """A query string with some parameters set; None removes one."""
    copied = query.copy()
    for name, value in changed.items():
        copied.pop(name, None)
        if value is not None:
            copied[name] = str(value)
    return urlencode([(name, value) for name, values in copied.lists() for value in values])


class ApiPagination(BasePagination):
    """Reads what chooses a page before anything is looked up; the envelope has three fields."""

    parameters: tuple[dict[str, Any], ...] = ()
    """Its query parameters, as the OpenAPI document has them."""

    def read(self, request: Request, base_url: str) -> None:
        """Keep what the request asks for; 422."""
        self.request, self.base_url = request, base_url
        asked = count_parameter(request.query_params, "per_page", PER_PAGE_DEFAULT)
        self.per_page = min(asked, PER_PAGE_MAX)

    def names(self) -> list[str]:
        """The names of its query parameters."""
        return [one["name"] for one in self.parameters]

    def link(self, **changed: object) -> str:
        """This request's own address with some query parameters set; None removes one."""
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
    "per_page", PER_PAGE_DEFAULT, f"Over {PER_PAGE_MAX} counts as {PER_PAGE_MAX}."
)


class PagePagination(ApiPagination):
    """Pages by number, from 1. `next` and `previous` are absolute and keep the other parameters."""

    parameters = (
        count_schema("page", 1, "Which page, from 1. A page past the end is empty."),
        PER_PAGE,
    )

    pinned: Mapping[str, str] = {}
    """Query parameters that the other pages have, whatever this one was asked with."""

    def read(self, request: Request, base_url: str) -> None:
        self.page = count_parameter(request.query_params, "page", 1)
        super().read(request, base_url)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        found, self.has_next = slice_page(queryset, self.page, self.per_page)
        return found

    def get_paginated_response(self, data: Any) -> Response:
        after, before = (self.link(page=self.page + step, **self.pinned) for step in (1, -1))
        return Response(
            {
                "results": data,
                "next": after if self.has_next else None,
                "previous": before if self.page > 1 else None,
            }
        )
