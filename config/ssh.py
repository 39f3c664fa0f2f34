"""git over SSH beside `manage.py serve`: a process that ends with it, and is started again if it
dies. It counts slots and requests together with the workers.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from typing import NoReturn

from django.conf import settings
from django.db import connection, connections

from apps.core.workers import MOST, workers
from apps.site.counters import process_counters
from apps.ssh import process
from config.server import allow_many_files

PAUSE_MS = 1000
"""Milliseconds before the server is started again."""
logger = logging.getLogger(__name__)


def listen() -> socket.socket | None:
    """A socket at `SSH_ADDRESS`, which from now on has its port; None without one. `OSError`."""
    listening, address = process.listen(), settings.SSH_ADDRESS
    if listening is not None and address is not None:
        settings.SSH_ADDRESS = address._replace(port=listening.getsockname()[1])
    return listening


def start(listening: socket.socket, *others: socket.socket) -> None:
    """Fork the process that serves at this socket. It closes `others`.

    The processes of this server share a pipe, at whose end it ends.
    """
    process_counters()
    connections.close_all()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined] # only PostgreSQL's class has one
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        listening.close()
        return
    os.close(writing)
    for other in others:
        other.close()
    _keep_serving(listening, reading)


def _keep_serving(listening: socket.socket, pipe: int) -> NoReturn:
    # Ctrl-C is for all processes of a terminal. This one ends after those that use the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Workers have the places from the first one on.
    workers.place = MOST - 1
    try:
        while True:
            workers.transfers.clear(workers.place)
            child = os.fork()
            if child == 0:
                _serve(listening, pipe)
            _, status = os.waitpid(child, 0)
            if _has_ended(pipe, 0):
                break
            logger.error("git over SSH ended with %s and is started again", status)
            if _has_ended(pipe, PAUSE_MS):
                break
    finally:
        os._exit(0)


def _serve(listening: socket.socket, pipe: int) -> NoReturn:
    code = 1
    try:
        allow_many_files()
        process.run(listening, on_ready=lambda *_: None, ends_with=pipe)
        code = 0
    except BaseException:
        logger.exception("git over SSH failed")
    finally:
        os._exit(code)


def _has_ended(pipe: int, milliseconds: int) -> bool:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(milliseconds))
