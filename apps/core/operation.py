"""`@operation` declares a method of the API: its level, serializers, status and description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from typing import Any, cast

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
    """The declaration of one method of a viewset, and the decorator that declares it.

    The method returns a record, a page, or None for 204. Its docstring is the description.
    """

    level: Level
    _: KW_ONLY
    request: type[RequestSerializer] | None = None
    response: type[RecordSerializer] | None = None
    status: int = 200
    query: type[QuerySerializer] | None = None
    even_inactive: bool = False
    """Whether it may change an inactive team."""
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    """Media types of texts that a query parameter can request instead."""
    other_responses: dict[int, type[RecordSerializer]] = field(default_factory=dict)
    """Records by status, for statuses besides `status` that have a record instead of ErrorBody."""
    errors: tuple[str, ...] = ()
    """The codes of its own refusals, besides those that follow from the rest (`refusals.py`)."""
    conditional: bool = False
    """Whether it answers 304 if `If-None-Match` has the ETag of its answer."""
    summary: str = ""
    description: str = ""

    def __call__(self, method: Method) -> Handler:
        @wraps(method)
        def run(view: Any, request: Request, *_: Any, **__: Any) -> HttpResponseBase:
            answer = view.respond(lambda: _response(method(view), self.status))
            return cast("HttpResponseBase", answer)

        summary, _, rest = (method.__doc__ or "").strip().partition("\n")
        declared = replace(self, summary=summary, description=" ".join(rest.split()))
        cast("Any", run).operation = declared
        return run


operation = Operation


def _response(result: Any, status: int) -> HttpResponseBase:
    return result if isinstance(result, HttpResponseBase) else Response(result, status)
