"""The worker runs the jobs of `settings.JOBS` in their order."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event

import pytest

from apps.jobs import worker
from apps.jobs.worker import OnDone

runs: list[str] = []
"""The jobs that have run, in order."""
work: list[str] = []
"""The remaining work of `queue`."""
stop = Event()


def periodic(on_done: OnDone) -> bool:
    runs.append("periodic")
    return True  # its result does not start another round


def queue(on_done: OnDone) -> bool:
    if not work:
        return False
    runs.append(work.pop())
    on_done(runs[-1])
    return True


def broken(on_done: OnDone) -> bool:
    runs.append("broken")
    raise RuntimeError("as asked")


def last(on_done: OnDone) -> bool:
    runs.append("last")
    stop.set()
    return False


def row(name, **more):
    return {"function": f"{__name__}.{name}", **more}


@pytest.fixture(autouse=True)
def begin():
    runs.clear()
    work.clear()
    stop.clear()


@pytest.mark.django_db
def test_a_job_goes_on_while_it_has_work_before_those_below_it_run(settings):
    settings.JOBS = [row("periodic", every=3600.0), row("queue"), row("last")]
    work.extend(["two", "one"])
    done: list[str] = []
    worker.run(stop, on_done=done.append)
    assert runs == ["periodic", "one", "two", "last"]
    assert done == ["one", "two"]


@pytest.mark.django_db
def test_a_job_that_fails_is_logged_and_due_again_after_its_time(settings, caplog):
    settings.JOBS = [row("broken", every=3600.0), row("last")]
    worker.run(stop)
    assert runs == ["broken", "last"]
    assert "A job of the worker failed" in caplog.text


@contextmanager
def beside():
    runs.append("begun")
    yield
    runs.append("ended")


@pytest.mark.django_db
def test_a_context_of_the_worker_is_open_while_it_runs(settings):
    settings.WORKER_CONTEXTS = [f"{__name__}.beside"]
    settings.JOBS = [row("last")]
    worker.run(stop)
    assert runs == ["begun", "last", "ended"]
