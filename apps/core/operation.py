"""`@operation`: the one declaration over a method, from which level, input, output, status and
the OpenAPI document follow (architecture.md §5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core.access import Level
from apps.core.parsers import PAGE, PER_PAGE, Query
from apps.core.serializers import Input, Output

Method = Callable[[Any], Any]
Handler = Callable[..., HttpResponseBase]


@dataclass(frozen=True)
class Operation:
    """What one method of a viewset promises."""

    level: Level
    takes: type[Input] | None
    gives: type[Output] | None
    status: int
    query: tuple[Query, ...]
    paged: bool
    body_required: bool
    even_inactive: bool
    media_type: str
    refuses: dict[int, type[Output]]
    summary: str
    description: str


def operation(
    level: Level,
    *,
    takes: type[Input] | None = None,
    gives: type[Output] | None = None,
    status: int = 200,
    query: tuple[Query, ...] = (),
    paged: bool = False,
    page_by: tuple[Query, ...] = (PAGE, PER_PAGE),
    body_required: bool | None = None,
    even_inactive: bool = False,
    media_type: str = "application/json",
    refuses: dict[int, type[Output]] | None = None,
) -> Callable[[Method], Handler]:
    """Declare a method. It returns the record, the page, or None for 204; the answer is made here.

    `page_by` chooses a page of a paged list; `body_required` defaults to whether `takes` is given;
    `even_inactive` may change an inactive team; `refuses` names statuses without ErrorBody.
    """

    def declare(method: Method) -> Handler:
        summary, _, rest = (method.__doc__ or "").strip().partition("\n")
        run = answering(method, status)
        vars(run)["operation"] = Operation(
            level=level,
            takes=takes,
            gives=gives,
            status=status,
            query=(*query, *page_by) if paged else query,
            paged=paged,
            body_required=takes is not None if body_required is None else body_required,
            even_inactive=even_inactive,
            media_type=media_type,
            refuses=refuses or {},
            summary=summary,
            description=" ".join(rest.split()),
        )
        return run

    return declare


def answering(method: Method, status: int) -> Handler:
    """The method as DRF calls it: what it returns, as an answer with this status."""

    @wraps(method)
    def run(view: Any, request: Request, *_: Any, **__: Any) -> HttpResponseBase:
        answer = method(view)
        if isinstance(answer, HttpResponseBase):
            return answer
        return Response(answer, status=status)

    return run
