"""Wake-ups between the processes of one machine, by datagram sockets in a folder.

Each process with streams has a socket there. A process that changes something writes to all of
them. This serves SQLite; PostgreSQL has `NOTIFY`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from django.conf import settings

PATIENCE = 1.0
"""Seconds to wait for a process that has not read its last wake-ups."""
SIZE = 32
"""Bytes of the longest wake-up."""

OnWake = Callable[[int | None], None]


def folder() -> Path:
    return Path(settings.DATA_DIR, "wake")


@cache
def opened(path: Path) -> int:
    """A file descriptor of this folder. It shortens the addresses of sockets, which may have 107
    bytes.
    """
    path.mkdir(exist_ok=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def address_of(name: str) -> str:
    return f"/proc/self/fd/{opened(folder())}/{name}"


def send(person: int | None) -> None:
    """Wake all processes. A wake-up without a person may be lost if one has not read the last."""
    data = str(person or "").encode()
    names = os.listdir(opened(folder()))
    if not names:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(PATIENCE if person else 0)
        for name in names:
            try:
                sender.sendto(data, address_of(name))
            except (ConnectionRefusedError, FileNotFoundError):  # its process has ended
                Path(folder(), name).unlink(missing_ok=True)
            except OSError:  # it is full: the process reads everything at its next wake-up
                pass


@contextmanager
def receiving(on_wake: OnWake) -> Iterator[None]:
    """Call `on_wake` at each wake-up, in this event loop, while the context is open."""
    loop = asyncio.get_running_loop()
    name = uuid4().hex
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.setblocking(False)
        receiver.bind(address_of(name))

        def read() -> None:
            with suppress(BlockingIOError):
                while True:
                    data = receiver.recv(SIZE)
                    on_wake(int(data) if data else None)

        loop.add_reader(receiver, read)
        try:
            yield
        finally:
            loop.remove_reader(receiver)
            Path(folder(), name).unlink(missing_ok=True)
