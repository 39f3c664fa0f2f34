"""`manage.py run_jobs`: the worker as a process of its own."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from django.conf import settings

from apps.core.command import Command as OurCommand
from apps.jobs import worker
from config.monitoring import monitoring

PORTS_ABOVE = 2
"""The API and the stream use the port of METRICS_ADDRESS and the next one (gunicorn.conf.py)."""


class Command(OurCommand):
    help = (
        "Run background jobs, such as making forks and sending mail, until Ctrl-C. bin/serve does "
        "this by itself, as does each server on SQLite. With gunicorn on PostgreSQL, run one or "
        "several of these."
    )

    requires_system_checks = ["installation"]

    def run(self, **_: Any) -> None:
        stop = Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        if line := monitoring.listen(settings.METRICS_ADDRESS, PORTS_ABOVE):
            self.print_line(line)
        monitoring.start()
        self.print_line("The worker is running (Ctrl-C stops it)")
        try:
            worker.run(stop, on_done=self.print_line)
        finally:
            monitoring.end()

    def print_line(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
