"""The threads that run views, under ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic
from typing import Any, TypeVar

from django.db import connections

AT_WORK = 2
"""Threads that take requests from the queue. More would only take turns at one interpreter."""
STALLED = 0.1
"""Seconds without a request taken from the queue after which another thread helps."""

Result = TypeVar("Result")


def settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Set the result of a future from a thread, or its exception if the outcome is one.

    Does nothing if the future is cancelled, or its event loop has ended.
    """

    def in_loop() -> None:
        if future.done():
            return
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    with suppress(RuntimeError):  # the loop has ended
        future.get_loop().call_soon_threadsafe(in_loop)


class RequestThreads:
    """A queue of requests, and a few threads that run them in order.

    A thread may wait for a client, a lock or git. If all do, and nothing was taken from the queue
    for `STALLED` seconds, a thread is added: requests that take minutes delay no others. A thread
    ends when its request does, if enough others are at work.
    """

    def __init__(self, at_work: int = AT_WORK) -> None:
        self.at_work = at_work
        self.queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.lock = Lock()
        self.begun: dict[Thread, float] = {}
        """Each thread, and when it took its request; infinity while it waits for one."""
        self.pending = self.idle = 0
        """Queued requests, and waiting threads."""
        self.taken = 0.0
        """When a request was last taken from the queue."""
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, call: Callable[[], object], *, at_once: bool = False) -> None:
        """Queue a call, from the event loop. With `at_once` a thread is added if all are busy."""
        with self.lock:
            self.pending += 1
            is_short = self.pending > self.idle
        self.queue.put(call)
        if is_short and (len(self.begun) < self.at_work or at_once):
            self._add()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STALLED, self._look)

    async def run(self, call: Callable[..., Result], *args: Any) -> Result:
        """The result of a call in one of the threads."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def work() -> None:
            try:
                settle(future, call(*args))
            except BaseException as error:
                settle(future, error)

        self.submit(work)
        return await future

    def _look(self) -> None:
        """Add a thread if requests wait and none was taken for a while; look again later."""
        self._timer = None
        if not self.pending:
            return
        if monotonic() - self.taken >= STALLED:
            self._add()
        self._timer = asyncio.get_running_loop().call_later(STALLED, self._look)

    def _add(self) -> None:
        thread = Thread(target=self._work, name="request", daemon=True)
        with self.lock:
            self.begun[thread] = monotonic()
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            with self.lock:
                del self.begun[thread]

    def _work(self) -> None:
        thread = current_thread()
        self._wait(thread)
        while True:
            call = self.queue.get()
            with self.lock:
                self.pending -= 1
                self.idle -= 1
                self.begun[thread] = self.taken = monotonic()
            call()
            del call  # the request
            if self._ends(thread):
                break
            self._wait(thread)
        connections.close_all()

    def _wait(self, thread: Thread) -> None:
        with self.lock:
            self.begun[thread] = inf
            self.idle += 1

    def _ends(self, thread: Thread) -> bool:
        """Whether enough other threads are waiting or have taken a request lately."""
        with self.lock:
            stalled = monotonic() - STALLED
            others = [begun for other, begun in self.begun.items() if other is not thread]
            if sum(begun > stalled for begun in others) < self.at_work:
                return False
            del self.begun[thread]
            return True
