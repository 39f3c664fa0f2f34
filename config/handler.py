"""Django under ASGI: one thread for each request, and large bodies read while they arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections, connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from apps.core.body_limits import UPLOAD_LIMIT, upload_memory
from apps.core.errors import BadRequest, Unavailable, as_api_error
from apps.core.middleware import error_answer
from apps.core.requests import address_of
from apps.core.slugs import PREFIX
from apps.core.threads import DaemonExecutor
from apps.git.run import GitError
from config.bodies import ApiBody, BufferedBody, Receive, StreamedBody

SILENCE = 60
"""Seconds after which a client that receives nothing of its answer is disconnected."""
IDLE_MAX = 16
"""Maximum threads that are kept without a request."""
GIT = re.compile(r"/(teams|users)/[^/]+/[^/]+\.git/git-(upload|receive)-pack")
"""Paths of git's requests, whose views check access before they read anything."""
UPLOADS = re.compile(r"/api/v1/(teams|users)/[^/]+/repos/[^/]+/uploads")

Send = Callable[[Any], Awaitable[None]]


def sender(scope: dict[str, Any]) -> str:
    """The address of the client, as far as it can be known."""
    forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    meta = {
        "REMOTE_ADDR": (scope.get("client") or [""])[0],
        "HTTP_X_FORWARDED_FOR": b",".join(forwarded).decode("latin-1"),
    }
    return address_of(meta, settings.TRUSTED_PROXIES)


class Threads:
    """Lends each request a thread. There are as many as current requests: one that takes minutes,
    such as a push, delays no other.
    """

    def __init__(self) -> None:
        self.idle: list[DaemonExecutor] = []

    @contextmanager
    def lend(self) -> Iterator[DaemonExecutor]:
        """A thread for the caller alone, as an executor."""
        thread = self.idle.pop() if self.idle else DaemonExecutor("request")
        try:
            yield thread
        finally:
            # A client that disconnects ends the request before its view: the thread is returned
            # after all of its tasks. Without a body no task has started it.
            if thread.begun:
                thread.submit(self._take_back, thread)

    def _take_back(self, thread: DaemonExecutor) -> None:
        is_kept = len(self.idle) < IDLE_MAX
        try:
            # An interrupted request has not sent the signal `request_finished`.
            close_old_connections() if is_kept else connections.close_all()
        finally:
            self.idle.append(thread) if is_kept else thread.shutdown(wait=False)


class Handler(ASGIHandler):
    """Django's handler with two changes: middleware and view run in one thread, and views of git
    and of the API start before a large body has arrived.

    No view is asynchronous. Django itself would run half of the middleware in the event loop,
    change threads a dozen times, and open a database connection for each request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = Threads()

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if GIT.fullmatch(scope["path"]):
            streamed = StreamedBody(receive)
            await self._answer(scope, streamed, send)
            await streamed.discard()
            return
        body = self._body_of(scope, receive)
        try:
            await self._answer(scope, body, send)
        except (BadRequest, Unavailable) as error:
            await self.send_response(error_answer(error), send)
        finally:
            body.hold.release()
        if isinstance(body, ApiBody):
            await body.discard()

    def _body_of(self, scope: dict[str, Any], receive: Receive) -> BufferedBody | ApiBody:
        caller = f"address:{sender(scope)}"
        if UPLOADS.fullmatch(scope["path"]):
            return ApiBody(receive, caller, UPLOAD_LIMIT, upload_memory)
        of_api = scope["path"].startswith(f"{PREFIX}/")
        return ApiBody(receive, caller) if of_api else BufferedBody(receive, caller)

    async def _answer(self, scope: dict[str, Any], body: Receive, send: Send) -> None:
        with self.threads.lend() as thread:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, body, send)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)

    async def read_body(self, receive: Receive) -> Any:
        """The body as a file: a complete one, or one whose reads wait for the client."""
        if isinstance(receive, BufferedBody):
            return await receive.whole()
        if isinstance(receive, ApiBody):
            await receive.begin()
        return receive

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send the response. A client that receives nothing for `SILENCE` counts as disconnected.

        The head is sent with the first part of the body: a failure of git before it still becomes
        an error response.
        """
        head: list[Any] = []

        async def send_in_time(message: Any) -> None:
            if message["type"] == "http.response.start":
                head.append(message)
                return
            async with asyncio.timeout(SILENCE):
                while head:
                    await send(head.pop())
                await send(message)

        try:
            with suppress(TimeoutError):
                await super().send_response(response, send_in_time)
        except GitError as error:
            refusal = as_api_error(error)
            if not head or not refusal:
                raise
            await super().send_response(error_answer(refusal), send)

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Wait until the client disconnects; its view may read the body until then."""
        # Django does not read the result of this task if the server ends the request at the same
        # time. asyncio would then log a traceback for a disconnected client.
        if task := asyncio.current_task():
            task.add_done_callback(_retrieve)
        if isinstance(receive, StreamedBody):
            await receive.ended.wait()
        await super().listen_for_disconnect(receive)

    async def ask(self, scope: dict[str, Any]) -> HttpResponseBase:
        """The response to this request without a body; the caller sends it or not.

        A cancelled caller stops waiting for the view, which continues in its thread.
        """
        loop = asyncio.get_running_loop()
        with self.threads.lend() as thread:
            return await loop.run_in_executor(thread, self._respond, scope)

    def _respond(self, scope: dict[str, Any]) -> Any:
        set_script_prefix(get_script_prefix(scope))
        request, refusal = self.create_request(scope, BytesIO())
        response: Any = self.get_response(request) if request else refusal
        response.close()
        return response


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Mark the exception of a task as retrieved."""
    if not task.cancelled():
        task.exception()
