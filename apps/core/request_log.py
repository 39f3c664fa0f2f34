"""Middleware: an id for each request, a line of the log, metrics and a span.

A line has no query string and no secret of a path. docs/logs.md describes ids and lines,
docs/metrics.md the rest.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import lru_cache
from time import perf_counter
from typing import Any, cast

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.encoding import escape_uri_path

from apps.core import metrics, tracing
from apps.core.middleware import Next
from apps.core.openapi import operation_name
from apps.core.request_ids import HEADER, CurrentRequest, current, without_invites
from apps.core.requests import SiteRequest, address_of
from apps.core.slugs import PREFIX
from apps.git.run import started_here

ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Ids that a proxy may send."""
STREAM = f"{PREFIX}/tail-events"
"""The path of the live stream, which has no span: it stays open for hours."""
LONGEST_PATH = 500
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]{1,500}")
LINE = (
    '%(person)s %(address)s "%(method)s %(path)s" %(operation)s %(status)s'
    " %(ms)s ms, %(queries)s queries, %(gits)s gits"
)
logger = logging.getLogger(__name__)


def request_log(get_response: Next) -> Next:
    """Set `request.id` and the header `X-Request-Id` of the answer. If the logger has the level
    INFO, log the request when it is answered, or after the last byte of a streamed answer. Metrics
    and spans likewise, if they are on.
    """

    def answer(request: SiteRequest) -> HttpResponseBase:
        request.id = request_id_of(request.META)
        running = CurrentRequest(request.id, request.META)
        current.set(running)
        if logger.isEnabledFor(logging.INFO) or metrics.is_on() or tracing.tracer:
            response = observed(request, running, get_response)
        else:
            response = get_response(request)
        response[HEADER] = request.id
        return response

    return cast("Next", answer)


def request_id_of(meta: Mapping[str, str]) -> str:
    """The id that a trusted proxy has sent, or a new one."""
    sent = meta.get("HTTP_X_REQUEST_ID", "") if settings.TRUSTED_PROXIES else ""
    return sent if ACCEPTED.fullmatch(sent) else secrets.token_hex(4)


class Pieces:
    """The pieces of a streamed answer; `finish` is called when it is closed."""

    def __init__(self, pieces: Any, finish: Callable[[], None]) -> None:
        self.pieces, self.close = pieces, finish

    def __iter__(self) -> Iterator[Any]:
        return iter(self.pieces)


def observed(request: HttpRequest, running: CurrentRequest, get_response: Next) -> HttpResponseBase:
    """Answer the request; log and count it."""
    begun, gits, is_logged = perf_counter(), started_here.get(), logger.isEnabledFor(logging.INFO)
    is_traced = tracing.tracer and request.path_info != STREAM
    span = tracing.begin_request(running.id) if is_traced else None
    with connection.execute_wrapper(running.count) if is_logged else nullcontext():
        response = get_response(request)

    def finish() -> None:
        operation, status = operation_of(request), response.status_code
        metrics.count_request(operation, status, perf_counter() - begun)
        if span:
            tracing.end_request(span, operation, status)
        if is_logged:
            write_line(request, running, operation, status, begun, gits)

    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = Pieces(response.streaming_content, finish)
    else:
        finish()
    return response


def write_line(
    request: HttpRequest,
    running: CurrentRequest,
    operation: str,
    status: int,
    begun: float,
    gits: int,
) -> None:
    """`Logger.info` would look for the calling line, which tells nothing here."""
    values = {
        "person": running.username,
        "address": address_of(request.META, settings.TRUSTED_PROXIES),
        "method": request.method,
        "path": visible_path(request.path_info),
        "operation": operation,
        "status": status,
        "ms": round((perf_counter() - begun) * 1000, 1),
        "queries": running.queries,
        "gits": started_here.get() - gits,
    }
    logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, LINE, (values,), None))


def visible_path(path: str) -> str:
    """The path as one word of ASCII, without the uuid of an invite."""
    if PLAIN_PATH.fullmatch(path) and "invites/" not in path:
        return path  # the same, in less time
    return str(escape_uri_path(without_invites(path[:LONGEST_PATH])))[:LONGEST_PATH]


def operation_of(request: HttpRequest) -> str:
    """The `operationId` of the API, the name of another route or its view, `static`, or `-`."""
    match = request.resolver_match
    if match is None:
        return "static" if request.path_info.startswith(settings.STATIC_URL) else "-"
    method = str(request.method).lower()
    action = getattr(match.func, "actions", {}).get(method)
    if action is not None:
        return api_operation("GET" if method == "head" else method.upper(), match.route, action)
    return str(match.view_name).rpartition(".")[2]


@lru_cache(maxsize=1024)
def api_operation(method: str, route: str, action: str) -> str:
    path = re.sub(r"<\w+:(\w+)>", r"{\1}", f"/{route}").removeprefix(PREFIX)
    return operation_name(method, path, action)
