"""Requests and actions that arrive together. Needs `django_db(transaction=True)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Barrier, Thread

from django.db import connection

from apps.core.errors import ApiError
from tests.api import Answer


class Outcome:
    """What an action came to, like an answer: 200, or the refusal it raised."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.status, self.json = 200, dict[str, str]()
        try:
            act()
        except ApiError as error:
            self.status, self.json = error.status, {"error": error.code}


def at_once(*calls: Callable[[], Answer | Outcome]) -> Counter[tuple[int, str | None]]:
    """Start all of them at the same moment; how often each status and code came back."""
    barrier, answers = Barrier(len(calls)), []

    def run(call: Callable[[], Answer]) -> None:
        try:
            barrier.wait(timeout=60)
            answers.append(call())
        finally:
            connection.close()

    threads = [Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(answers) == len(calls), "one of them raised"
    return Counter((answer.status, (answer.json or {}).get("error")) for answer in answers)
