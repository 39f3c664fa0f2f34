"""Threads that do not delay the end of the process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

Work = tuple[Future[Any], Callable[[], Any]]


class DaemonExecutor(Executor):
    """An executor whose threads run tasks in order; they start with the first task.

    The end of the process does not wait for them, unlike the executors of the standard library: a
    thread may wait for a lock of the database. Interrupted work is repaired as after any crash.
    """

    def __init__(self, name: str, count: int = 1) -> None:
        self.work: SimpleQueue[Work | None] = SimpleQueue()
        self.threads = [Thread(target=self._run, name=name, daemon=True) for _ in range(count)]
        self.begun = False
        self._beginning = Lock()

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.put((future, partial(call, *args, **options)))
        if not self.begun:
            self._begin()
        return future

    def _begin(self) -> None:
        with self._beginning:
            for thread in self.threads:
                if thread.ident is None:  # an earlier start may have failed
                    thread.start()
            self.begun = True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after all tasks."""
        for _ in self.threads:
            self.work.put(None)
        if wait and self.begun:
            for thread in self.threads:
                thread.join()

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        """Run one task, without keeping a reference to it; False at the end."""
        work = self.work.get()
        if work is None:
            return False
        future, call = work
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as problem:
                future.set_exception(problem)
        return True
