"""`manage.py run_jobs`: the worker as a process of its own."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from apps.core.command import Command as OurCommand
from apps.jobs import worker


class Command(OurCommand):
    help = (
        "Make forks and settle what crashes have left, until Ctrl-C. bin/serve does this by "
        "itself, and each server on SQLite; beside gunicorn on PostgreSQL run one, or several."
    )

    def run(self, **_: Any) -> None:
        stop = Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        self.stdout.write("The worker runs (Ctrl-C ends it)")
        self.stdout.flush()
        worker.run(stop, on_done=self.print_line)

    def print_line(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
