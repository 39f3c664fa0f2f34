"""Concurrent requests and actions. Tests need `django_db(transaction=True)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

from django.db import connection

from apps.core.errors import ApiError
from tests.api import Answer
from tests.waiting import eventually


class Outcome:
    """The outcome of an action like an answer: 200, or the refusal that it raised."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.status, self.json = 200, dict[str, str]()
        try:
            act()
        except ApiError as error:
            self.status, self.json = error.status, {"error": error.code}


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Start all of them at the same moment, each in a thread of its own; their results in order."""
    barrier, results = Barrier(len(calls)), dict[int, Any]()

    def run(number: int, call: Callable[[], Any]) -> None:
        try:
            barrier.wait(timeout=60)
            results[number] = call()
        finally:
            connection.close()

    threads = [Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(results) == len(calls), "one of them raised"
    return [results[number] for number in range(len(calls))]


def codes(answers: list[Any]) -> Counter[tuple[int, str | None]]:
    """How often each status and code came back."""
    return Counter((answer.status, (answer.json or {}).get("error")) for answer in answers)


def at_once(*calls: Callable[[], Answer | Outcome]) -> Counter[tuple[int, str | None]]:
    """Start all of them at the same moment; how often each status and code came back."""
    return codes(together(*calls))


class Aside(Thread):
    """A concurrent call, which may wait for locks of the caller."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act = act
        self.is_writing = False

    def begin(self) -> None:
        """Start it inside a transaction; returns when it has ended, or waits for the caller."""
        self.start()
        eventually(lambda: not self.is_alive() or self.is_held_up())

    def is_held_up(self) -> bool:
        if connection.vendor == "sqlite":  # one transaction writes at a time, that of the caller
            return self.is_writing
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid() = ANY(pg_blocking_pids(pid)) FROM pg_locks")
            return (True,) in cursor.fetchall()

    def run(self) -> None:
        try:
            with connection.execute_wrapper(self.note):
                self.act()
        finally:
            connection.close()

    def note(self, execute: Any, sql: str, *rest: Any) -> Any:
        self.is_writing = not sql.startswith("SELECT")
        try:
            return execute(sql, *rest)
        finally:
            self.is_writing = False
