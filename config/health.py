"""`/healthz` and `/readyz` under WSGI, before any middleware: probes use any Host header.

config/handler.py answers `/healthz` under ASGI, in the event loop.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import Any

from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIHandler
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.accounts.authentication import credentials_of, principal_of, principal_of_session
from apps.core import json
from apps.core.errors import ApiError
from apps.core.request_ids import current
from config.handler import ALIVE, ALIVE_HEADERS, asks_if_alive
from config.readiness import Readiness, readiness


class Application(WSGIHandler):
    """Django's WSGI application, with both answers."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if asks_if_alive(environ["REQUEST_METHOD"], environ["PATH_INFO"]):
            start_response("200 OK", [*ALIVE_HEADERS.items()])
            return [ALIVE]
        return super().__call__(environ, start_response)

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info == "/readyz":
            current.set(None)  # of the request that this thread answered before
            return readyz(request, readiness)
        return super().get_response(request)


def readyz(request: HttpRequest, readiness: Readiness) -> HttpResponse:
    """200 or 503 with one word; for staff, JSON with each part."""
    state = readiness.state()
    if state.database_answers and is_staff(request):
        content, kind = json.dumps(state.record()), "application/json"
    else:
        content, kind = f"{state.public_word}\n".encode(), "text/plain"
    headers = {"Content-Length": str(len(content)), "Cache-Control": "no-store"}
    return HttpResponse(content, status=state.status, content_type=kind, headers=headers)


def is_staff(request: HttpRequest) -> bool:
    """Whether a token or session of staff came with the request. Invalid ones are ignored."""
    try:
        if credentials := credentials_of(request.META):
            username, text = credentials
            return principal_of(text, username).is_staff
        SessionMiddleware(lambda _: HttpResponse()).process_request(request)
        return principal_of_session(request).is_staff
    except (ApiError, DatabaseError):
        return False


def before_end(call: Callable[[], object], *numbers: signal.Signals) -> None:
    """Call this on these signals, before their handlers of now. Does nothing outside the main
    thread, which cannot set handlers.
    """
    if current_thread() is not main_thread():
        return
    for number in numbers:
        previous = signal.getsignal(number)
        if callable(previous):
            signal.signal(number, _both(call, previous))


def _both(call: Callable[[], object], previous: Callable[..., object]) -> Callable[..., None]:
    def handle(number: int, frame: Any) -> None:
        call()
        previous(number, frame)

    return handle


def drain_at_end() -> None:
    """Let `/readyz` answer 503 from SIGTERM or SIGINT on, while open requests are completed."""
    before_end(readiness.drain, signal.SIGTERM, signal.SIGINT)
