"""A channel of SSH with the bytes of one command, in the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import asyncssh

MOST: Final = 4 * 1024 * 1024
"""Bytes of a client that wait to be read, beyond which it is told to wait. This is more than the
window of a channel, so that nothing is left in the channel when reading goes on: asyncssh opens the
whole window again with the first bytes that it delivers, however many still wait in the channel.
"""


class GitSession(asyncssh.SSHServerSession[bytes]):
    """One command. `start` is called once the client has named it, with `command` set; it is None
    for a shell or a subsystem.
    """

    def __init__(self, start: Callable[[GitSession], object]) -> None:
        self.start = start
        self.command: str | None = None
        self.pieces = deque[bytes]()
        self.size = 0
        self.is_paused = self.has_ended = False
        self.error: Exception | None = None
        self.arrived, self.writable = asyncio.Event(), asyncio.Event()
        self.writable.set()

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self.channel = chan

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self.command = command
        return True

    def session_started(self) -> None:
        self.start(self)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self.pieces.append(data)
        self.size += len(data)
        self.arrived.set()
        if self.size >= MOST and not self.is_paused:
            self.is_paused = True
            self.channel.pause_reading()

    def eof_received(self) -> bool:
        """Keep the channel open: the answer is still to come."""
        self.has_ended = True
        self.arrived.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended, self.error = True, exc or BrokenPipeError()
        self.arrived.set()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    @property
    def environment(self) -> Mapping[str, str]:
        return self.channel.get_environment()

    async def read(self, most: int) -> bytes:
        """The next bytes of the client, about `most`; none at their end. `OSError`,
        `asyncssh.Error` if it has disconnected.
        """
        while not self.pieces:
            if self.error is not None:
                raise self.error
            if self.has_ended:
                return b""
            self.arrived.clear()
            await self.arrived.wait()
        taken, size = list[bytes](), 0
        while self.pieces and size < most:
            taken.append(self.pieces.popleft())
            size += len(taken[-1])
        self.size -= size
        if self.is_paused and not self.pieces:
            self.is_paused = False
            self.channel.resume_reading()
        return b"".join(taken)

    async def write(self, piece: bytes) -> None:
        """Send bytes, and wait while the client is slow. `OSError`, `asyncssh.Error`."""
        self.channel.write(piece)
        await self.writable.wait()
        if self.error is not None:
            raise self.error

    def write_error(self, text: str) -> None:
        """Send a line for the person."""
        self.channel.write_stderr(f"{text}\n".encode())
