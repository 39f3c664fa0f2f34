"""Runs Django's WSGI application under ASGI: the event loop waits for clients, threads run views.

An adapter of our own, because no view is asynchronous: Django's ASGI handler takes as long for a
request as many views do. docs/decisions/0007-one-thread-for-a-request.md has the figures.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.wsgi import WSGIHandler
from django.http.response import HttpResponse, HttpResponseBase
from django.urls import set_script_prefix

from apps.core.body_limits import UPLOAD_LIMIT, upload_memory
from apps.core.errors import BadRequest, Unavailable
from apps.core.middleware import error_answer
from apps.core.request_log import request_log
from apps.core.requests import UNDER_ASGI, address_of
from apps.core.slugs import PREFIX
from config.bodies import ApiBody, BufferedBody, Receive, StreamedBody
from config.cross_origin import cross_origin
from config.request_threads import RequestThreads, settle

SILENCE = 60
"""Seconds after which a client that receives nothing of its answer is disconnected."""
GIT = re.compile(r"/(teams|users)/[^/]+/[^/]+\.git/git-(upload|receive)-pack")
"""Paths of git's requests, whose views check access before they read anything."""
UPLOADS = re.compile(r"/api/v1/(teams|users)/[^/]+/repos/[^/]+/uploads")
ALIVE = b"ok\n"
"""The answer of `/healthz`. It uses no thread and no database: a supervisor that restarts servers
while the database is away would make the outage longer.
"""
ALIVE_HEADERS = {"Content-Type": "text/plain", "Content-Length": "3", "Cache-Control": "no-store"}

Body = ApiBody | BufferedBody | StreamedBody
Environ = dict[str, Any]
Scope = dict[str, Any]
Send = Callable[[Any], Awaitable[None]]
StartResponse = Callable[[str, list[tuple[str, str]]], None]


def asks_if_alive(method: str, path: str) -> bool:
    return path == "/healthz" and method in {"GET", "HEAD"}


def environ_of(scope: Scope) -> Environ:
    """The WSGI environment of a request (PEP 3333), without its body."""
    raw_path = scope.get("raw_path") or scope["path"].encode()
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(raw_path).decode("latin-1"),
        "RAW_URI": raw_path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope.get('http_version', '1.1')}",
        "SERVER_NAME": "unknown",
        "SERVER_PORT": "0",
        "REMOTE_ADDR": (scope.get("client") or [""])[0],
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(),
        "wsgi.errors": sys.stderr,
        UNDER_ASGI: True,
    }
    if server := scope.get("server"):
        environ["SERVER_NAME"], environ["SERVER_PORT"] = server[0], str(server[1] or 0)
    for raw_name, raw_value in scope["headers"]:
        if b"_" in raw_name:  # would be taken for the header with a hyphen
            continue
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        key = name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        if key in environ:
            value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
        environ[key] = value
    return environ


class ClientLeft(Exception):
    """The client has disconnected, or receives nothing any more."""


class Exchange:
    """A request and its response: the view runs in a thread, the event loop sends."""

    def __init__(self, application: Any, environ: Environ, body: Body, send: Send) -> None:
        self.application, self.environ, self.body, self.send = application, environ, body, send
        self.loop = asyncio.get_running_loop()
        self.head: dict[str, Any] | None = None
        """The head of the response, until it is sent with the first part of the body."""
        self.has_left = False
        self.answered: asyncio.Future[bytes | None] = self.loop.create_future()
        """The whole body of the response; None if it has been sent in pieces."""
        self.closed: asyncio.Future[None] = self.loop.create_future()
        """Done when the response is closed, and the thread reads no more of the request."""
        self.sending: asyncio.Task[Any] | None = None
        """Sends the newest piece. Only the event loop uses it: the thread may be late."""

    async def run(self, threads: RequestThreads, *, at_once: bool) -> None:
        """Raises errors of the view's response that come when its head has been sent."""
        threads.submit(self.respond, at_once=at_once)
        try:
            content = await self.answered
            if content is not None:
                await self._send_part(content, more=False)
            if at_once:
                await self.closed
        except asyncio.CancelledError:
            self._leave()
            raise

    def respond(self) -> None:
        """Run the view and send its response, in a thread."""
        if self.has_left:
            return
        try:
            self._respond()
        except ClientLeft:
            settle(self.answered, None)
        except BaseException as error:
            settle(self.answered, error)
        settle(self.closed, None)

    def _respond(self) -> None:
        response: HttpResponseBase = self.application(self.environ, self._start)
        try:
            if response.streaming:
                self._send_pieces(response)
            else:
                is_head = self.environ["REQUEST_METHOD"] == "HEAD"
                content = b"" if is_head else response.content  # type: ignore[attr-defined] # not streaming
                settle(self.answered, content)
        finally:
            response.close()

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.head = {
            "type": "http.response.start",
            "status": int(status[:3]),
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
            ],
        }

    def _send_pieces(self, response: HttpResponseBase) -> None:
        """Send a response while it is made. The first piece sends the head: until then an error
        becomes an answer.
        """
        watcher = asyncio.run_coroutine_threadsafe(self._watch(), self.loop)
        try:
            for piece in response:
                self._await(self._send_piece(piece, more=True))
            self._await(self._send_piece(b"", more=False))
        finally:
            watcher.cancel()
        settle(self.answered, None)

    def _await(self, sending: Coroutine[Any, Any, None]) -> None:
        """Wait in the thread until the event loop has sent something."""
        try:
            asyncio.run_coroutine_threadsafe(sending, self.loop).result()
        except (CancelledError, RuntimeError):  # the latter if the loop was closed
            sending.close()
            raise ClientLeft from None

    async def _send_piece(self, piece: bytes, *, more: bool) -> None:
        """`_send_part` unless the client has left; `_leave` cancels it."""
        if self.has_left:
            raise ClientLeft
        self.sending = asyncio.current_task()
        await self._send_part(piece, more=more)

    async def _send_part(self, part: bytes, *, more: bool) -> None:
        """Raises `ClientLeft` if the client does not receive it in time."""
        try:
            async with asyncio.timeout(SILENCE):
                if head := self.head:
                    self.head = None
                    await self.send(head)
                await self.send({"type": "http.response.body", "body": part, "more_body": more})
        except TimeoutError:
            raise ClientLeft from None

    async def _watch(self) -> None:
        """Wait until the client leaves, and end a sending that waits for it."""
        await self.body.left()
        self._leave()

    def _leave(self) -> None:
        self.has_left = True
        if self.sending:
            self.sending.cancel()


class Handler:
    """The ASGI application for all requests but streams."""

    def __init__(self, application: Any = None) -> None:
        self.application: Any = application or WSGIHandler()
        self.threads = RequestThreads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if asks_if_alive(scope["method"], scope["path"]):
            content = b"" if scope["method"] == "HEAD" else ALIVE
            await self.send_response(HttpResponse(content, headers=ALIVE_HEADERS), send)
            return
        environ = environ_of(scope)
        body = self._body_of(scope["path"], environ, receive)
        try:
            await self._answer(environ, body, send)
        except (RequestAborted, ClientLeft):
            return
        finally:
            body.release()
        await body.discard()

    async def _answer(self, environ: Environ, body: Body, send: Send) -> None:
        try:
            await body.begin(environ)
        except (BadRequest, Unavailable) as error:
            await self._refuse(environ, error_answer(error), send)
            return
        is_git = type(body) is StreamedBody
        await Exchange(self.application, environ, body, send).run(self.threads, at_once=is_git)

    async def _refuse(self, environ: Environ, response: HttpResponse, send: Send) -> None:
        """Answer a request that no view gets. It has an id and a line of the log like others."""
        middleware = request_log(cross_origin(lambda request: response))
        await self.send_response(middleware(self.application.request_class(environ)), send)

    def _body_of(self, path: str, environ: Environ, receive: Receive) -> Body:
        if GIT.fullmatch(path):
            return StreamedBody(receive)
        caller = f"address:{address_of(environ, settings.TRUSTED_PROXIES)}"
        if UPLOADS.fullmatch(path):
            return ApiBody(receive, caller, UPLOAD_LIMIT, upload_memory)
        of_api = path.startswith(f"{PREFIX}/")
        return ApiBody(receive, caller) if of_api else BufferedBody(receive, caller)

    async def ask(self, scope: Scope) -> HttpResponseBase:
        """The response to this request without a body; the caller sends it or not.

        A cancelled caller stops waiting for the view, which continues in its thread.
        """
        return await self.threads.run(self._ask, environ_of(scope))

    def _ask(self, environ: Environ) -> HttpResponseBase:
        set_script_prefix("/")
        response: HttpResponseBase = self.application.get_response(
            self.application.request_class(environ)
        )
        response.close()
        return response

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send a response that is complete."""
        pairs = response.items()
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        start = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": headers,
        }
        await send(start)
        await send({"type": "http.response.body", "body": response.content})  # type: ignore[attr-defined] # complete
