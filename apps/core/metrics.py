"""Counters and histograms of this process, for Prometheus. They do nothing until `start`.

docs/metrics.md lists them. It knows no Django, and imports prometheus-client in `start` only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from apps.core.workers import workers
from apps.git import run

REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
GIT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 300)
WAIT_SECONDS = (0.001, 0.01, 0.1, 1, 5)
"""Upper bounds of the buckets of histograms."""


class Metric:
    """A metric of prometheus-client. Its labels must have few values: each combination stays in
    memory until the server ends.
    """

    def __init__(self, kind: str, name: str, help_text: str, *labels: str, **options: Any) -> None:
        """`kind`: the class of prometheus-client. A counter is exported as `NAME_total`."""
        self.kind, self.name, self.help_text = kind, name, help_text
        self.labels, self.options = labels, options
        self.metric: Any = None
        self.children: dict[tuple[str, ...], Any] = {}
        """The metric of each combination of labels: prometheus-client takes longer to find it."""

    def add(self, *labels: str) -> None:
        """Count one more."""
        if self.metric is not None:
            self._child(labels).inc()

    def observe(self, seconds: float, *labels: str) -> None:
        if self.metric is not None:
            self._child(labels).observe(seconds)

    def set_to_now(self, *labels: str) -> None:
        if self.metric is not None:
            self._child(labels).set_to_current_time()

    @contextmanager
    def timed(self, *labels: str) -> Iterator[None]:
        """Observe the seconds of the block, also if it fails."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - begun, *labels)

    def _child(self, labels: tuple[str, ...]) -> Any:
        child = self.children.get(labels)
        if child is None:
            child = self.children[labels] = self.metric.labels(*labels) if labels else self.metric
        return child


requests = Metric(
    "Counter", "guildhall_requests", "Answered requests, by status class.", "operation", "status"
)
request_seconds = Metric(
    "Histogram",
    "guildhall_request_seconds",
    "Seconds to answer a request; for git with the transfer.",
    "operation",
    buckets=REQUEST_SECONDS,
)
gits_started = Metric("Counter", "guildhall_gits_started", "Started git processes.", "subcommand")
git_seconds = Metric(
    "Histogram",
    "guildhall_git_seconds",
    "Seconds from the start of a git process to its end. Those that stay are left out.",
    "subcommand",
    buckets=GIT_SECONDS,
)
slots_refused = Metric(
    "Counter",
    "guildhall_slots_refused",
    "Requests refused because all slots of a limit were in use.",
    "limit",
)
connection_seconds = Metric(
    "Histogram",
    "guildhall_database_connection_wait_seconds",
    "Seconds of waiting for a connection of the pool to PostgreSQL.",
    buckets=WAIT_SECONDS,
)
event_lock_seconds = Metric(
    "Histogram",
    "guildhall_event_lock_wait_seconds",
    "Seconds of waiting for the lock that orders events, on PostgreSQL.",
    buckets=WAIT_SECONDS,
)
webhook_deliveries = Metric(
    "Counter", "guildhall_webhook_deliveries", "Attempts to deliver to webhooks.", "status"
)
job_seconds = Metric(
    "Summary",
    "guildhall_job_seconds",
    "Seconds of the runs of a job, also of those that fail.",
    "name",
)
jobs_failed = Metric("Counter", "guildhall_jobs_failed", "Runs of a job that failed.", "name")
job_success = Metric(
    "Gauge",
    "guildhall_job_last_success_timestamp_seconds",
    "When a job last ran without an error.",
    "name",
    multiprocess_mode="max",
)
METRICS = (
    requests,
    request_seconds,
    gits_started,
    git_seconds,
    slots_refused,
    connection_seconds,
    event_lock_seconds,
    webhook_deliveries,
    job_seconds,
    jobs_failed,
    job_success,
)


def start(folder: Path) -> None:
    """Count from now on, into files of this folder. Call it in each worker, after the fork.

    The files have the name of the worker's place, not of its process: the worker that takes over
    the place of another counts on, and there are never more files than places.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    import prometheus_client
    from prometheus_client import values

    place: Any = values.MultiProcessValue(lambda: workers.place)  # type: ignore[no-untyped-call]
    values.ValueClass = place
    for metric in METRICS:
        kind = getattr(prometheus_client, metric.kind)
        metric.metric = kind(metric.name, metric.help_text, metric.labels, **metric.options)
    run.observers.append(count_git)


def count_git(subcommand: str, seconds: float | None) -> None:
    """Count a git that starts, or observe the seconds of one that has ended."""
    if seconds is None:
        gits_started.add(subcommand)
    else:
        git_seconds.observe(seconds, subcommand)


def count_request(operation: str, status: int, seconds: float) -> None:
    """Count an answered request; `seconds` is the time until the end of its answer."""
    requests.add(operation, f"{status // 100}xx")
    request_seconds.observe(seconds, operation)


def is_on() -> bool:
    return requests.metric is not None
