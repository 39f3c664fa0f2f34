"""Executors whose threads do not delay the end of the process."""

from __future__ import annotations

import threading

from apps.core.threads import DaemonExecutor
from tests.server import PATIENCE


class Late(threading.Thread):
    """A thread whose first start fails."""

    refused = False

    def start(self) -> None:
        if not self.refused:
            self.refused = True
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_thread_that_could_not_start_starts_for_the_next_work(monkeypatch):
    monkeypatch.setattr("apps.core.threads.Thread", Late)
    executor = DaemonExecutor("late")
    try:
        executor.submit(bool)
    except RuntimeError as error:
        assert str(error) == "can't start new thread"
    assert executor.submit(lambda: "done").result(PATIENCE) == "done"
    executor.shutdown()
