"""Reads and writes the pipes of a process, and waits for its end."""

import os
from select import POLLIN, poll
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import IO, Final, Protocol, cast

PIECE: Final = 65536
"""Most bytes of one read or write."""


class Process(Protocol):
    """The attributes of `Popen` that this module uses."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None


def register(pipes: DefaultSelector, process: Process) -> None:
    """Register the process's output, and its input unless that is closed, with the selector."""
    stdin = cast(IO[bytes], process.stdin)
    if not stdin.closed:
        pipes.register(stdin, EVENT_WRITE)
    pipes.register(cast(IO[bytes], process.stdout), EVENT_READ)
    pipes.register(cast(IO[bytes], process.stderr), EVENT_READ)


def write(fd: int, rest: memoryview) -> memoryview:
    """Write as much as fits, and return the rest. It is empty if the process stopped reading."""
    try:
        return rest[os.write(fd, rest[:PIECE]) :]
    except BrokenPipeError:  # the process needs no more input
        return rest[:0]


def ends_within(process: Process, seconds: float) -> bool:
    """Wait for the process to end, but do not reap it, so that its group id is not reused."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        waiting = poll()
        waiting.register(handle, POLLIN)
        return bool(waiting.poll(max(0, seconds) * 1000))
    finally:
        os.close(handle)
