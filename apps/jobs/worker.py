"""The worker: a loop that runs the jobs of `settings.JOBS`.

Several workers do no harm, because leases and locks decide who does what. One runs as a thread of
`bin/serve` and of each server process on SQLite (`start`), or as `manage.py run_jobs`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TypeAlias

from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.utils.module_loading import import_string

PAUSE = 1.0
"""Seconds to the next look for work when there was none."""
logger = logging.getLogger(__name__)

OnDone: TypeAlias = Callable[[str], None]
"""Called with a line about each piece of work that was done."""
JobFunction: TypeAlias = Callable[[OnDone], bool]
"""Does one piece of work; returns whether there was any."""


@dataclass
class Job:
    """A row of `settings.JOBS`. `every`: seconds between two runs; None: whenever there is work."""

    function: JobFunction
    every: float | None = None
    due: float = 0

    def run(self, on_done: OnDone) -> bool:
        """Run it, if it is due. True when there may be more work at once."""
        if self.every is None:
            return self.function(on_done)
        if monotonic() >= self.due:
            self.due = monotonic() + self.every  # before: a run that fails is not repeated at once
            self.function(on_done)
        return False


def run(stop: threading.Event, *, on_done: OnDone = lambda _: None) -> None:
    """Work until `stop` is set.

    Each round runs the jobs in their order until one has found work; then the next round begins,
    so that jobs further up go first. An error ends a round, and is logged.
    """
    jobs = [Job(**{**row, "function": import_string(row["function"])}) for row in settings.JOBS]
    while not stop.is_set():
        if not run_round(jobs, on_done):
            stop.wait(PAUSE)


def run_round(jobs: Iterable[Job], on_done: OnDone) -> bool:
    """Whether a job has found work, and another round should follow at once."""
    try:
        return any(job.run(on_done) for job in jobs)
    except DatabaseError as error:
        # Not migrated yet, or not to be reached: the requests will say so as well.
        logger.info("The worker waits for the database: %s", error)
    except Exception:
        logger.exception("The worker failed; it goes on")
    finally:
        close_old_connections()
    return False


@cache
def start() -> None:
    """Work in a thread of this process; once, however often it is called.

    The thread ends with the process: what it leaves, the next worker takes over.
    """
    threading.Thread(target=run, args=[threading.Event()], name="worker", daemon=True).start()


def start_if_wanted() -> None:
    """Start the thread where `settings.WORKER_THREAD` asks for it: on SQLite."""
    if settings.WORKER_THREAD:
        start()
