"""Django under ASGI: one thread for a request, and large bodies read as they come."""

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
"""Seconds until a client that takes nothing of its answer is given up."""
KEPT = 16
"""Threads that wait for a request when there are fewer requests than there have been."""
GIT = re.compile(r"/(teams|users)/[^/]+/[^/]+\.git/git-(upload|receive)-pack")
"""Where git sends its requests: their views ask who is there before they read anything."""
UPLOADS = re.compile(r"/api/v1/(teams|users)/[^/]+/repos/[^/]+/uploads")

Send = Callable[[Any], Awaitable[None]]


def sender(scope: dict[str, Any]) -> str:
    """The address from which a request comes, as far as it can be known."""
    forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    meta = {
        "REMOTE_ADDR": (scope.get("client") or [""])[0],
        "HTTP_X_FORWARDED_FOR": b",".join(forwarded).decode("latin-1"),
    }
    return address_of(meta, settings.TRUSTED_PROXIES)


class Threads:
    """Lends a thread to each request. There are as many as requests under way: one that takes
    minutes, such as a push, holds up no other.
    """

    def __init__(self) -> None:
        self.idle: list[DaemonExecutor] = []

    @contextmanager
    def lend(self) -> Iterator[DaemonExecutor]:
        """A thread of the caller's own, as an executor."""
        thread = self.idle.pop() if self.idle else DaemonExecutor("request")
        try:
            yield thread
        finally:
            # A client that leaves ends the request before its view has ended: the thread comes
            # back when all that it was given is done. One whose body never came has none yet.
            if thread.begun:
                thread.submit(self._take_back, thread)

    def _take_back(self, thread: DaemonExecutor) -> None:
        kept = len(self.idle) < KEPT
        try:
            # A request that was cut off has not said that it is finished.
            close_old_connections() if kept else connections.close_all()
        finally:
            self.idle.append(thread) if kept else thread.shutdown(wait=False)


class Handler(ASGIHandler):
    """Django's handler, which here calls everything from the first middleware to the view in one
    thread, and gives a request of git's, or a large one of the API's, to its view before all of its
    body has come.

    No view awaits anything. Stock Django would call half of the middleware from the event loop,
    change threads a dozen times, and open a connection to the database for each request.
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
        """The body as a file: all that has come, or one that waits for the client."""
        if isinstance(receive, BufferedBody):
            return await receive.whole()
        if isinstance(receive, ApiBody):
            await receive.begin()
        return receive

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send it, until its client takes nothing of it for so long: then as if that had left.

        The head waits for the first of the body: a git that fails before is answered as in a view.
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
        """Wait until the client leaves; its view may read the body before."""
        # Django does not look at this task if the server ends the request at the same moment.
        # asyncio would then log a traceback because a client has left.
        if task := asyncio.current_task():
            task.add_done_callback(_retrieve)
        if isinstance(receive, StreamedBody):
            await receive.ended.wait()
        await super().listen_for_disconnect(receive)

    async def ask(self, scope: dict[str, Any]) -> HttpResponseBase:
        """The response to this request without its body, which the caller sends or not.

        A caller that is cancelled stops waiting for the view, which goes on in its thread.
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
    """Mark the exception of a task as seen."""
    if not task.cancelled():
        task.exception()
