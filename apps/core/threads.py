"""Threads for which the end of the process does not wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

Work = tuple[Future[Any], Callable[[], Any]]


class DaemonExecutor(Executor):
    """An executor whose threads run what they are given in order; they start with the first task.

    The end of the process waits for none of them, as it would for those of the standard library's
    executors: one may wait for a lock of the database, and what is left half done is made good as
    after any other sudden end.
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
                if thread.ident is None:  # the machine may have had no more threads before
                    thread.start()
            self.begun = True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads when they have run all tasks."""
        for _ in self.threads:
            self.work.put(None)
        if wait and self.begun:
            for thread in self.threads:
                thread.join()

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        """Run one task, and keep no reference to it."""
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
