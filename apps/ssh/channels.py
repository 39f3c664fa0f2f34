"""Bytes between a channel of SSH and a git process.

A fetch runs in the event loop. A push and an archive run in a thread, by the functions that HTTP
uses too, and reach the channel from there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import IO, Any, Final, TypeVar, cast

from asyncssh import Error as SshError

from apps.core.parsers import broken_off
from apps.git.protocol import FetchChecker, ProtocolError
from apps.git.run import GitProcess
from apps.repos.http.streams import DROP_SECONDS, DROPPED, PIECE, PushBody
from apps.ssh.session import GitSession

Result = TypeVar("Result")
READ: Final = 256 * 1024
"""Most bytes that a thread takes at once."""
SILENCE: Final = 60
"""Seconds after which a client that sends nothing in the middle of a push is given up."""
DROP_SILENCE: Final = 3
"""Seconds after which a client that sends no more of a refused push waits for the report. git says
that it has sent all; other clients do not.
"""
IDLE: Final = 300
"""Seconds after which a fetch is ended in which neither side sends anything."""
FETCH_LIMIT: Final = 16 * 1024 * 1024
"""Most bytes that a client may send in one fetch."""
LOST: Final = (BrokenPipeError, ConnectionError)


class FetchRefused(Exception):
    """The client's requests are too large. The text is for the client."""


class FetchStream:
    """Streams one fetch: the client's requests to git, and git's answers to the client."""

    def __init__(self, session: GitSession, git: GitProcess) -> None:
        self.session, self.git = session, git
        self.checker, self.sent = FetchChecker(), 0
        self.active_at = monotonic()

    async def run(self) -> None:
        """Return when git has closed its output. `FetchRefused`, `TimeoutError` after `IDLE`."""
        for pipe in (self.git.stdin, self.git.stdout):
            os.set_blocking(cast("IO[bytes]", pipe).fileno(), False)
        answers = asyncio.create_task(self.answers())
        others = [asyncio.create_task(self.requests()), asyncio.create_task(self.idle())]
        try:
            await asyncio.wait([answers, *others], return_when=asyncio.FIRST_EXCEPTION)
            for task in (answers, *others):
                if task.done():
                    task.result()
        finally:
            for task in (answers, *others):
                task.cancel()
            await asyncio.gather(answers, *others, return_exceptions=True)

    async def answers(self) -> None:
        """git's output, until its end. Ends the other tasks by `_Ended`."""
        output = cast("IO[bytes]", self.git.stdout).fileno()
        while piece := await read_some(output):
            self.active_at = monotonic()
            await self.session.write(piece)
        raise _Ended

    async def requests(self) -> None:
        pipe = cast("IO[bytes]", self.git.stdin)
        with suppress(*LOST):  # git has ended, or the client has gone
            while piece := await self.session.read(PIECE):
                self.active_at = monotonic()
                self.sent += len(piece)
                self.check(piece)
                await write_all(pipe.fileno(), piece)
        with suppress(OSError):
            pipe.close()

    def check(self, piece: bytes) -> None:
        try:
            self.checker.feed(piece)
        except ProtocolError as error:
            raise FetchRefused(f"{error}.") from None
        if self.sent > FETCH_LIMIT:
            raise FetchRefused(f"A fetch may send at most {FETCH_LIMIT} bytes.")

    async def idle(self) -> None:
        while (left := self.active_at + IDLE - monotonic()) > 0:
            await asyncio.sleep(left)
        raise TimeoutError


class _Ended(Exception):
    """git has closed its output."""


async def stream_fetch(session: GitSession, git: GitProcess) -> None:
    """`FetchStream.run`."""
    with suppress(_Ended):
        await FetchStream(session, git).run()


async def read_some(fd: int) -> bytes:
    """The next bytes of a pipe that does not block; none at its end."""
    while True:
        try:
            return os.read(fd, PIECE)
        except BlockingIOError:
            await _ready(fd, writing=False)


async def write_all(fd: int, piece: bytes) -> None:
    """Write to a pipe that does not block. `BrokenPipeError`."""
    rest = memoryview(piece)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            await _ready(fd, writing=True)


async def _ready(fd: int, *, writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_writer if writing else loop.add_reader)(fd, set_ready)
    try:
        await ready
    finally:
        (loop.remove_writer if writing else loop.remove_reader)(fd)


class ChannelBody(PushBody):
    """The bytes that a client sends, read in a thread.

    A client need not say that a push ends: `finish` ends the iteration, also while it waits.
    """

    def __init__(self, session: GitSession, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(iter(()))
        self.session, self.loop = session, loop
        self.received, self.first, self.piece = 0, b"", b""
        self.is_finished = self.is_dropping = False
        self.lock = Lock()
        self.reading: Future[None] | None = None

    def __next__(self) -> bytes:
        """The next piece. 400 if the client disconnects or sends nothing for `SILENCE` seconds."""
        if first := self.first:
            self.first = b""
            return first
        with self.lock:
            if self.is_finished:
                raise StopIteration
            self.reading = in_loop(self._read(), self.loop)
        try:
            self.reading.result(DROP_SILENCE if self.is_dropping else SILENCE)
        except CancelledError:
            raise StopIteration from None
        except (TimeoutError, OSError, SshError) as error:
            self.reading.cancel()
            if self.is_dropping and isinstance(error, TimeoutError):
                raise StopIteration from None
            raise broken_off() from None
        piece, self.piece = self.piece, b""
        if not piece:
            raise StopIteration
        self.received += len(piece)
        return piece

    async def _read(self) -> None:
        """Read the next piece, and keep it here: the futures of a call from another thread refer to
        each other, so that a result would stay in memory until the garbage is collected.
        """
        self.piece = await self.session.read(READ)

    def begin_with(self, piece: bytes) -> None:
        """Give back a piece that was read, which the iteration returns again."""
        self.first = piece

    def drop(self) -> None:
        """Read the rest of a refused push. A client that waits for the report is not waited for."""
        self.is_dropping = True
        ends, most = monotonic() + DROP_SECONDS, self.received + DROPPED
        for _ in self:
            if self.received > most or monotonic() > ends:
                return

    def finish(self) -> None:
        with self.lock:
            self.is_finished = True
            if self.reading is not None:
                self.reading.cancel()


class ChannelOutput:
    """Writes to the client from a thread, which waits while the client is slow."""

    def __init__(self, session: GitSession, loop: asyncio.AbstractEventLoop) -> None:
        self.session, self.loop = session, loop

    def write(self, piece: bytes) -> None:
        """`OSError` if the client has disconnected or receives nothing."""
        in_loop(self.session.write(piece), self.loop).result(SILENCE)

    def write_all(self, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            self.write(piece)


def in_loop(work: Coroutine[Any, Any, Result], loop: asyncio.AbstractEventLoop) -> Future[Result]:
    """Start work in the event loop, from a thread."""
    return asyncio.run_coroutine_threadsafe(work, loop)
