"""Django under ASGI: each request in one thread, which keeps its database connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections, connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.core.threads import DaemonExecutor

KEPT = 16
"""Threads that wait for a request when there are fewer requests than there have been."""


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
    """Django's, which calls everything from the first middleware to the view in one thread.

    No view of ours awaits anything. Stock Django would call half of the middleware from the event
    loop, change threads a dozen times, and open a connection to the database for each request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = Threads()

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        with self.threads.lend() as thread:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)
