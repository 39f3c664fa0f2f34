"""The server of `manage.py serve`: gunicorn with one worker of its `asgi` kind.

gunicorn's master has the socket and starts the worker anew if it dies; the worker does all else.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
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
"""Seconds that a request body may pause, and that the event loop may hang, before gunicorn acts."""
GRACE = 10
"""Seconds until gunicorn kills a worker that does not end; it takes one or two."""
ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
early: list[int] = []
"""Signals to end that came before gunicorn listened for them."""


def listen(host: str, port: int) -> socket.socket:
    """A socket on which connections wait until the server runs. Port 0: any free one.

    Raises `OSError` when the address is not to be had.
    """
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    listening = socket.create_server(
        (host, port), family=family, backlog=WAITING, dualstack_ipv6=six
    )
    # Each connection has it from here. Else the end of a small answer waits for the client, since
    # asyncio sets it only where a socket says by itself that it is TCP.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listening


class Server(BaseApplication):  # type: ignore[misc]
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
            "graceful_timeout": GRACE,
            "when_ready": end_alike,
            "on_exit": lambda arbiter: fold_journal(),
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self.load_application()

    def run(self) -> None:
        """Serve; raises `SystemExit` in the end, in the master and in the worker."""
        give_up_connections()
        listen_for_end(early.append)
        super().run()


def give_up_connections() -> None:
    """Leave the worker no connection to the database that this process has opened."""
    connections.close_all()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]


def listen_for_end(note: Callable[[int], object]) -> None:
    """Have the signals to end given to this function, except those that are ignored."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: note(number))


def end_quietly() -> None:
    """Let Ctrl-C and SIGTERM end the process with status 0, until the server runs.

    They are noted as well: what a signal raises is lost where Python ignores exceptions, as in
    the callbacks of imports and in `__del__`.
    """

    def end(number: int) -> None:
        early.append(number)
        sys.exit(0)

    listen_for_end(end)


def end_alike(arbiter: Any) -> None:
    """Let SIGTERM end the server as Ctrl-C does: gunicorn would wait for all that is open.

    A new worker inherits this, and ends at once until it listens by itself. Ends the process if
    it was told to before.
    """

    def end(number: int, frame: Any) -> None:
        if os.getpid() != arbiter.pid:
            os._exit(0)
        arbiter.signal(signal.SIGINT, frame)

    for number in ENDING:
        signal.signal(number, end)
    if early:
        sys.exit(0)


def fold_journal() -> None:
    """Leave a SQLite database whole in its one file at the end.

    The last connection that is closed does so, but the worker's threads, for which nobody waits,
    close none. It waits only a moment for another process that is writing.
    """
    if connection.vendor != "sqlite":
        return
    there = f"{Path(connection.settings_dict['NAME']).absolute().as_uri()}?mode=rw"
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(there, uri=True, timeout=0.25)) as database,
    ):
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
