"""`@operation` declares a method of the API: its level, serializers, status and description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from typing import Any, cast

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.access import Level, Permission
from apps.core.conditional import NO_STORE
from apps.core.query import QuerySerializer
from apps.core.serializers import RecordSerializer, RequestSerializer, partial_of

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
    permission: Permission | None = None
    """The permission that a token needs. Reads below the level ADMIN need READ without it. Changes
    below that level have to state it; all others need ADMIN.
    """
    takes_limited: bool = False
    """Whether tokens that are limited to repositories may use it outside a repository. It shows
    them nothing about other repositories.
    """
    even_inactive: bool = False
    """Whether it may change an inactive team."""
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    """Media types of texts that a query parameter can request instead."""
    other_responses: dict[int, type[RecordSerializer]] = field(default_factory=dict)
    """Records by status, for statuses besides `status` that have a record instead of ErrorBody."""
    errors: tuple[str, ...] = ()
    """The codes of its own refusals, besides those that follow from the rest (`refusals.py`)."""
    is_secret: bool = False
    """Whether the answers of a read contain a secret: nothing caches or compresses them."""
    summary: str = ""
    description: str = ""

    def __call__(self, method: Method) -> Handler:
        @wraps(method)
        def run(view: Any, request: Request, *_: Any, **__: Any) -> HttpResponseBase:
            answer: HttpResponseBase = view.respond(lambda: _response(method(view), self.status))
            if self.is_secret:
                answer["Cache-Control"] = NO_STORE
            return answer

        summary, _, rest = (method.__doc__ or "").strip().partition("\n")
        declared = replace(self, summary=summary, description=" ".join(rest.split()))
        cast("Any", run).operation = declared
        return run

    def request_of(self, method: str | None) -> type[RequestSerializer] | None:
        """The request serializer for a method: with `PATCH`, each field may be omitted."""
        if self.request is None or method != "PATCH":
            return self.request
        return partial_of(self.request)

    def token_permission(self, method: str) -> Permission:
        """The permission that a token needs for this method."""
        if self.permission is not None:
            return self.permission
        reads = method in {"GET", "HEAD"} and self.level < Level.ADMIN
        return Permission.READ if reads else Permission.ADMIN

    def has_etag(self, method: str) -> bool:
        """Whether its answers have an ETag, and it answers 304 to `If-None-Match`."""
        return method == "GET" and not self.is_secret and self.media_type != "text/event-stream"


operation = Operation


def _response(result: Any, status: int) -> HttpResponseBase:
    return result if isinstance(result, HttpResponseBase) else Response(result, status)
