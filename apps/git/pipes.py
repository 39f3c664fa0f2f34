"""The pipes of a process, and its end."""

import os
from select import POLLIN, poll
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import IO, Final, Protocol, cast

PIECE: Final = 65536
"""Bytes that are read or written at once."""


class Process(Protocol):
    """What is needed of one here."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None


def register(pipes: DefaultSelector, process: Process) -> None:
    """Have the selector tell when the process takes input, if it is to get any, or gives output."""
    stdin = cast(IO[bytes], process.stdin)
    if not stdin.closed:
        pipes.register(stdin, EVENT_WRITE)
    pipes.register(cast(IO[bytes], process.stdout), EVENT_READ)
    pipes.register(cast(IO[bytes], process.stderr), EVENT_READ)


def write(fd: int, rest: memoryview) -> memoryview:
    """Write as much as fits; what is left. Nothing when the process reads no further."""
    try:
        return rest[os.write(fd, rest[:PIECE]) :]
    except BrokenPipeError:  # git has read as much as it wanted
        return rest[:0]


def ends_within(process: Process, seconds: float) -> bool:
    """Wait for the end without reaping: until then nobody else can get the group's number."""
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
