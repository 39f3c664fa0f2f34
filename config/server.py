"""The server of `manage.py serve`: gunicorn with `asgi` workers, one for each processor.

gunicorn's master holds the socket and restarts workers that die; each worker answers everything.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from django.db import connection, connections
from gunicorn.app.base import BaseApplication

from apps.core.workers import workers as shared_workers
from apps.site.counters import process_counters
from config.monitoring import monitoring

BACKLOG = 2048
"""Maximum connections that wait to be accepted."""
SILENCE = 60
"""Seconds after which the kernel or gunicorn ends a request body that pauses, a connection whose
client receives nothing, and an event loop that hangs.
"""
KEEPALIVE = 75
"""Seconds between two requests of a connection: more than nginx (60) and common clients keep an
idle one. If the server closed first, a request could be on its way, and the client would not know
whether it was carried out.
"""
LINE_LIMIT = FIELD_LIMIT = 16 * 1024
"""Maximum bytes of a request line and of a header: more than the API accepts, which answers longer
ones with an error of its own. gunicorn's threads accept lines of 8,190 bytes.
"""
GRACE = 10
"""Seconds until gunicorn kills a worker that does not end; usually it needs one or two."""
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A socket whose connections wait until the server runs. Port 0 is any free port.

    Raises `OSError` if the address is not available.
    """
    is_ipv6 = ":" in host
    listening = socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
        backlog=BACKLOG,
        dualstack_ipv6=is_ipv6,
    )
    end_silent(listening)
    return listening


def end_silent(listening: socket.socket, seconds: int = SILENCE) -> None:
    """Let the kernel end accepted connections whose client receives no byte for so many seconds,
    and threads' waiting for bytes that do not arrive.

    Nothing else ends these: a server waits as long as its client stays connected.
    """
    if listening.family != socket.AF_UNIX:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def allow_many_files() -> None:
    """Let this process and its children open as many files as the system allows.

    Each connection is a file, and the default limit is 1,024.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


SHARED: dict[str, Callable[..., object]] = {
    "pre_fork": lambda server, worker: shared_workers.assign(worker),
    "child_exit": lambda server, worker: shared_workers.forget(worker),
    "post_worker_init": lambda worker: monitoring.start(),
}
"""Hooks of gunicorn for what its workers share; the last one is called in the worker."""


class Server(BaseApplication):  # type: ignore[misc] # gunicorn has no types
    """Serves the application of `load_application`, which is called in the worker."""

    def __init__(
        self, listening: socket.socket, workers: int, load_application: Callable[[], Any]
    ) -> None:
        self.load_application = load_application
        self.settings = {
            "bind": f"fd://{listening.detach()}",
            "worker_class": "asgi",
            "workers": workers,
            "loglevel": "error",
            "control_socket_disable": True,
            "timeout": SILENCE,
            "keepalive": KEEPALIVE,
            "limit_request_line": LINE_LIMIT,
            "limit_request_field_size": FIELD_LIMIT,
            "graceful_timeout": GRACE,
            "when_ready": end_alike,
            **SHARED,
            "on_exit": lambda arbiter: end(),
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Load the application in the worker. Until it is loaded, a signal ends the worker at once:
        gunicorn would handle it later, and its master would kill the worker.
        """
        handlers = {number: signal.getsignal(number) for number in ENDING}
        end_at_once()
        application = self.load_application()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return application

    def run(self) -> None:
        """Serve; at the end raises `SystemExit`, in the master and in the worker.

        The worker inherits no database connection of this process.
        """
        allow_many_files()
        process_counters()
        connections.close_all()
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined] # only PostgreSQL's class has one
        block_signals_while_forking()
        super().run()


def end_at_once() -> None:
    """Let Ctrl-C and SIGTERM end the process with status 0 until the server runs, also if they were
    blocked before.

    An exception would be lost where Python ignores them, as in import callbacks and `__del__`.
    Work in progress is interrupted as by a crash.
    """

    def end(number: int, frame: Any) -> None:
        try:
            sys.stdout.flush()  # secrets that are printed once
        finally:
            os._exit(0)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_alike(arbiter: Any) -> None:
    """Let SIGTERM end the server like Ctrl-C: gunicorn would wait for all open connections."""
    for number in ENDING:
        signal.signal(number, lambda _, frame: arbiter.signal(signal.SIGINT, frame))


def block_signals_while_forking() -> None:
    """Block signals to a new worker until `Server.load` handles them: Python loses signals that
    arrive while it forks.
    """
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ENDING),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING),
    )


def end() -> None:
    """Leave nothing behind, in the master."""
    fold_journal()
    monitoring.end()


def fold_journal() -> None:
    """Write the journal of a SQLite database into its file at the end.

    Closing the last connection would do this, but the worker's daemon threads close none. It waits
    only briefly for another process that writes.
    """
    if connection.vendor == "sqlite":
        uri = f"{Path(connection.settings_dict['NAME']).absolute().as_uri()}?mode=rw"
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(uri, uri=True, timeout=0.25)) as database,
        ):
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
