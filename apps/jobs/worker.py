"""The worker: a loop that runs the jobs of `settings.JOBS`.

Several workers may run at once: leases and locks divide the work. A worker runs as a thread of
`bin/serve`, as a thread of each server process on SQLite (`start`), or as `manage.py run_jobs`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TypeAlias

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.core import metrics
from apps.jobs.leases import LEASE, repeated
from apps.jobs.models import Heartbeat

PAUSE = 1.0
"""Seconds to wait if no job found work."""
NAME = "worker"
"""The name of the worker's thread."""
logger = logging.getLogger(__name__)

OnDone: TypeAlias = Callable[[str], None]
"""A function that is called with a line about each completed piece of work."""
JobFunction: TypeAlias = Callable[[OnDone], bool]
"""A function that does one piece of work, and returns whether there was any."""


@dataclass
class Job:
    """A row of `settings.JOBS`. `every`: seconds between two runs; None for every round."""

    function: JobFunction
    every: float | None = None
    due: float = 0

    def run(self, on_done: OnDone) -> bool:
        """Run the job if it is due; return True if there may be more work at once."""
        if self.every is None:
            return self._run(on_done)
        if monotonic() >= self.due:
            self.due = monotonic() + self.every  # set first, so that a failing job waits too
            self._run(on_done)
        return False

    def _run(self, on_done: OnDone) -> bool:
        name = self.function.__name__
        try:
            with metrics.job_seconds.timed(name):
                has_worked = self.function(on_done)
        except Exception:
            metrics.jobs_failed.add(name)
            raise
        metrics.job_success.set_to_now(name)
        return has_worked


def run(stop: threading.Event, *, on_done: OnDone = lambda _: None) -> None:
    """Run jobs until `stop` is set.

    Each round runs the jobs in order until one has found work. Then the next round begins, so that
    earlier jobs have precedence. An error is logged and ends the round. Meanwhile the context
    managers of `settings.WORKER_CONTEXTS` are open.
    """
    jobs = [Job(**{**row, "function": import_string(row["function"])}) for row in settings.JOBS]
    with ExitStack() as contexts:
        contexts.enter_context(heartbeats())
        for name in settings.WORKER_CONTEXTS:
            contexts.enter_context(import_string(name)())
        while not stop.is_set():
            if not run_round(jobs, on_done):
                stop.wait(PAUSE)


def heartbeats() -> AbstractContextManager[None]:
    """Tell other processes that a worker runs, as long as the block does, also during a long job.

    On SQLite each server process has a worker of its own.
    """
    if connection.vendor == "sqlite":
        return nullcontext()
    return repeated(beat, "The heartbeat of the worker could not be stored", at_once=True)


def beat() -> None:
    Heartbeat.objects.update_or_create(pk=Heartbeat.ONLY, defaults={"at": timezone.now()})


def is_running() -> bool:
    """Whether a worker runs in this process, or any worker was seen within the last minute."""
    if any(thread.name == NAME for thread in threading.enumerate()):
        return True
    return Heartbeat.objects.filter(at__gt=timezone.now() - LEASE).exists()


def run_round(jobs: Iterable[Job], on_done: OnDone) -> bool:
    """Run one round; return whether a job has found work, so that the next follows at once."""
    try:
        return any(job.run(on_done) for job in jobs)
    except DatabaseError as error:
        # The database is not migrated or not reachable; requests report that too.
        logger.info("The worker is waiting for the database: %s", error)
    except Exception:
        logger.exception("A job of the worker failed; the worker continues")
    finally:
        close_old_connections()
    return False


@cache
def start() -> None:
    """Start a worker thread in this process. Further calls do nothing.

    The thread ends with the process, and the next worker takes over unfinished work.
    """
    threading.Thread(target=run, args=[threading.Event()], name=NAME, daemon=True).start()


def start_if_wanted() -> None:
    """Start the thread if `settings.WORKER_THREAD` is set, as on SQLite."""
    if settings.WORKER_THREAD:
        start()
