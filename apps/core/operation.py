"""`@operation` declares a method of the API: its level, serializers, status and description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, cast

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.access import Level
from apps.core.query import QuerySerializer
from apps.core.serializers import RecordSerializer, RequestSerializer

Method = Callable[[Any], Any]
Handler = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Operation:
    """The declaration of one method of a viewset."""

    level: Level
    request: type[RequestSerializer] | None
    response: type[RecordSerializer] | None
    status: int
    query: type[QuerySerializer] | None
    even_inactive: bool
    """Whether it may change an inactive team."""
    media_type: str
    other_media_types: tuple[str, ...]
    """Media types of texts that a query parameter can request instead."""
    other_responses: dict[int, type[RecordSerializer]]
    """Records by status, for statuses besides `status` that have a record instead of ErrorBody."""
    errors: tuple[str, ...]
    """The codes of its own refusals, besides those that follow from the rest (`refusals.py`)."""
    conditional: bool
    """Whether it answers 304 if `If-None-Match` has the ETag of its answer."""
    summary: str
    description: str


class DeclaredHandler(Protocol):
    operation: Operation


def _response(result: Any, status: int) -> HttpResponseBase:
    return result if isinstance(result, HttpResponseBase) else Response(result, status)


def operation(
    level: Level,
    *,
    request: type[RequestSerializer] | None = None,
    response: type[RecordSerializer] | None = None,
    status: int = 200,
    query: type[QuerySerializer] | None = None,
    even_inactive: bool = False,
    media_type: str = "application/json",
    other_media_types: tuple[str, ...] = (),
    other_responses: dict[int, type[RecordSerializer]] | None = None,
    errors: tuple[str, ...] = (),
    conditional: bool = False,
) -> Callable[[Method], Handler]:
    """Declare a method that returns a record, a page, or None for 204. See `Operation`."""

    def declare(method: Method) -> Handler:
        @wraps(method)
        def run(view: Any, request: Request, *_: Any, **__: Any) -> HttpResponseBase:
            return cast("HttpResponseBase", view.respond(lambda: _response(method(view), status)))

        summary, _, rest = (method.__doc__ or "").strip().partition("\n")
        cast("DeclaredHandler", run).operation = Operation(
            level=level,
            request=request,
            response=response,
            status=status,
            query=query,
            even_inactive=even_inactive,
            media_type=media_type,
            other_media_types=other_media_types,
            other_responses=other_responses or {},
            errors=errors,
            conditional=conditional,
            summary=summary,
            description=" ".join(rest.split()),
        )
        return run

    return declare
