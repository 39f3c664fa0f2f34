"""The server of `manage.py serve`: gunicorn with one worker of its `asgi` kind.

gunicorn's master has the socket and starts the worker anew if it dies; the worker does all else.
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

WAITING = 2048
"""Connections that may wait to be accepted."""
SILENCE = 60
"""Seconds that a request body may pause, that a client may take no byte of its answer, and that
the event loop may hang, before the kernel or gunicorn acts.
"""
KEPT_OPEN = 75
"""Seconds between two requests of a connection: longer than nginx (60) and the common clients keep
one that they do not use. Whoever closes first may meet a request that is on its way, and then its
client cannot know whether it was carried out.
"""
LINE_LIMIT = FIELD_LIMIT = 16 * 1024
"""Bytes of a request line and of a header that gunicorn takes: more than the API does, which tells
its clients so in its own words. gunicorn's threads take lines of 8,190 bytes at most.
"""
GRACE = 10
"""Seconds until gunicorn kills a worker that does not end; it takes one or two."""
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def listen(host: str, port: int) -> socket.socket:
    """A socket on which connections wait until the server runs. Port 0: any free one.

    Raises `OSError` when the address is not to be had.
    """
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=WAITING, dualstack_ipv6=six)
    end_silent(made)
    return made


def end_silent(listening: socket.socket, seconds: int = SILENCE) -> None:
    """Let the kernel end each connection that is accepted here when its client takes no byte of
    what is sent for so long, and each wait of a thread for bytes that do not come.

    Nothing else ends these: a server waits for its client as long as that stays connected.
    """
    if listening.family != socket.AF_UNIX:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, seconds * 1000)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def allow_many_files() -> None:
    """Let this process, and what it starts, open as many files as the system allows.

    Each connection is one, and systems begin with 1,024 for the sake of programs of old.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Server(BaseApplication):  # type: ignore[misc] # gunicorn has no types
    """Serves on a socket what `load_application` returns in the worker, until a signal ends it."""

    def __init__(self, listening: socket.socket, load_application: Callable[[], Any]) -> None:
        self.load_application = load_application
        self.settings = {
            "bind": f"fd://{listening.detach()}",
            "worker_class": "asgi",
            "workers": 1,
            "loglevel": "error",
            "control_socket_disable": True,
            "timeout": SILENCE,
            "keepalive": KEPT_OPEN,
            "limit_request_line": LINE_LIMIT,
            "limit_request_field_size": FIELD_LIMIT,
            "graceful_timeout": GRACE,
            "when_ready": end_alike,
            "on_exit": lambda arbiter: fold_journal(),
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In the worker. A signal ends it at once until the application is there: gunicorn notes it
        for later by then, and its master kills who does not end.
        """
        noted = {number: signal.getsignal(number) for number in ENDING}
        end_at_once()
        application = self.load_application()
        for number, handler in noted.items():
            signal.signal(number, handler)
        return application

    def run(self) -> None:
        """Serve; raises `SystemExit` in the end, in the master and in the worker.

        The worker is left no connection to the database that this process has opened.
        """
        allow_many_files()
        connections.close_all()
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined] # only PostgreSQL's class has one
        hold_back_signals_of_workers()
        super().run()


def end_at_once() -> None:
    """Let Ctrl-C and SIGTERM end the process with status 0, until the server runs; also those that
    came while they were held back.

    Nothing is raised: that would be lost where Python ignores exceptions, as in the callbacks of
    imports and in `__del__`. What is under way is left as a crash would leave it.
    """

    def end(number: int, frame: Any) -> None:
        try:
            sys.stdout.flush()  # secrets that are shown once
        finally:
            os._exit(0)

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_alike(arbiter: Any) -> None:
    """Let SIGTERM end the server as Ctrl-C does: gunicorn would wait for all that is open."""
    for number in ENDING:
        signal.signal(number, lambda _, frame: arbiter.signal(signal.SIGINT, frame))


def hold_back_signals_of_workers() -> None:
    """Let what comes for a new worker wait until `Server.load` handles it: Python forgets what
    comes while it forks.
    """
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ENDING),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING),
    )


def fold_journal() -> None:
    """Leave a SQLite database whole in its one file at the end.

    The last connection that is closed does so, but the worker's threads, for which nobody waits,
    close none. It waits only a moment for another process that is writing.
    """
    if connection.vendor == "sqlite":
        there = f"{Path(connection.settings_dict['NAME']).absolute().as_uri()}?mode=rw"
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(there, uri=True, timeout=0.25)) as database,
        ):
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
