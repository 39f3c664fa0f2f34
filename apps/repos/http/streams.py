"""Bytes between a request and a git process, in pieces, under WSGI and ASGI alike."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, closing, suppress
from select import POLLIN, poll
from threading import Thread
from time import monotonic
from typing import IO, Any, Protocol, TypeAlias, cast

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from apps.core.body_limits import LONGEST, body_memory, too_slow
from apps.core.errors import ApiError, BadRequest
from apps.core.parsers import broken_off, too_large
from apps.git.run import GitError, GitProcess, ends_well, kill_group

PIECE = 64 * 1024
PACKED_LIMIT = 16 * 1024 * 1024
"""Bytes of a gzip body, packed or unpacked: git sends long fetch requests so, and JGit pushes."""
DROPPED = 16 * 1024 * 1024
"""Bytes that are read of a push after its refusal, so that the client gets to read the answer."""
SILENCE = 60
"""Seconds that git may write nothing. While it packs it writes something every five seconds if the
client understands that (`uploadpack.keepAlive`), so that one that has gone is noticed.
"""
DROP_SECONDS = 60.0
"""How long they are read: a client may send them one by one."""
DROPPED_LATER = 2 * 1024 * 1024 * 1024
"""Bytes that are read after the answer to a push. git reads no answer before it has sent all, and a
push may have so many.
"""
DROP_LATER_SECONDS = 600.0
GZIP = 16 + zlib.MAX_WBITS

LAST_SECONDS = 10.0
"""How long git may take to end when it has written all."""

Start: TypeAlias = Callable[[], GitProcess]


class BrokenOff(GitError):
    """git did not end well. Raised while an answer is sent, this cuts the connection, so that the
    client sees that something is missing; before its first byte it is answered as any GitError.
    """


class Packer(Protocol):
    """Packs what git writes, as `zlib.compressobj` does."""

    def compress(self, piece: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class Unpacked:
    """Leaves it as it is."""

    def compress(self, piece: bytes) -> bytes:
        return piece

    def flush(self) -> bytes:
        return b""


class Bounded:
    """Packs as another packer does, until git has written more bytes than it may: `BrokenOff`."""

    def __init__(self, packer: Packer, most: int) -> None:
        self.packer, self.most = packer, most

    def compress(self, piece: bytes) -> bytes:
        self.most -= len(piece)
        if self.most < 0:
            raise BrokenOff("git wrote more than an answer may have")
        return self.packer.compress(piece)

    def flush(self) -> bytes:
        return self.packer.flush()


def pieces(request: HttpRequest) -> Iterator[bytes]:
    """The body, inflated if it came as gzip; 400 when that is broken, or the client left or fell
    silent.

    Under WSGI a chunked body has no length, and only the server's own stream knows its end.
    """
    stream: Any = request
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        stream = request.META.get("wsgi.input", request)
    raw = read_from(stream)
    if request.META.get("HTTP_CONTENT_ENCODING", "") in {"gzip", "x-gzip"}:
        return inflated(raw)
    return raw


def read_from(stream: Any) -> Iterator[bytes]:
    try:
        while piece := stream.read(PIECE):
            yield piece
    except ApiError:
        raise
    except Exception:  # broken chunks, or nothing comes: each server has errors of its own
        raise broken_off() from None


def inflated(raw: Iterator[bytes]) -> Iterator[bytes]:
    """What a gzip stream holds, a bounded piece at a time; 413 past `PACKED_LIMIT`."""
    unpacker = zlib.decompressobj(GZIP)
    packed = unpacked = 0
    try:
        for piece in raw:
            packed, rest = packed + len(piece), piece
            while rest:
                if unpacker.eof:  # something follows, which zlib would collect
                    raise broken_gzip()
                out = unpacker.decompress(rest, PIECE)
                unpacked += len(out)
                if max(packed, unpacked) > PACKED_LIMIT:
                    drop(raw)  # else the client may meet a closed connection before the refusal
                    raise too_large(PACKED_LIMIT)
                yield out
                rest = unpacker.unconsumed_tail or unpacker.unused_data
        yield unpacker.flush()
    except zlib.error:
        raise broken_gzip() from None
    if not unpacker.eof:
        raise broken_gzip()


def broken_gzip() -> BadRequest:
    return BadRequest("malformed_request", "The body is not valid gzip.")


def drop(body: Iterator[bytes]) -> None:
    """Read what is left of a refused push, but no more than `DROPPED` bytes in `DROP_SECONDS`."""
    _drop(body, DROPPED, DROP_SECONDS)


def _drop(body: Iterator[bytes], most: int, seconds: float) -> None:
    ends = monotonic() + seconds
    for piece in body:
        most -= len(piece)
        if most <= 0 or monotonic() > ends:
            return


def collected(body: Iterator[bytes], limit: int, held: ExitStack, caller: str) -> bytes:
    """Receive a small body, whose memory is counted for the caller until `held` ends.

    413 past `limit` bytes, counted after inflating; 400 when it takes more than `LONGEST` seconds;
    503 when all bodies are too large together.
    """
    whole, ends = bytearray(), monotonic() + LONGEST
    hold = held.enter_context(body_memory.hold(caller))
    for piece in body:
        whole += piece
        hold.grow_to(len(whole))
        if len(whole) > limit:
            raise too_large(limit)
        if monotonic() > ends:
            raise too_slow(LONGEST)
    return bytes(whole)


def fed_aside(start: Start, body: bytes) -> Start:
    """`start`, and `body` written to that git by a thread: git may answer while it reads."""

    def start_and_feed() -> GitProcess:
        process = start()
        Thread(target=_feed, args=(process, body), daemon=True).start()
        return process

    return start_and_feed


def _feed(process: GitProcess, body: bytes) -> None:
    stdin = cast("IO[bytes]", process.stdin)
    # git reads no further, or the client has gone and the pipe was closed.
    with suppress(BrokenPipeError, ValueError):
        stdin.write(body)
        stdin.close()


class GitAnswer(StreamingHttpResponse):
    """An answer of git's that holds what it needs until it has been sent."""

    def __init__(self, source: Any, held: ExitStack, content_type: str) -> None:
        headers = {"Cache-Control": "no-cache"}
        super().__init__(source, content_type=content_type, headers=headers)
        self.held = held

    def close(self) -> None:
        super().close()
        self.held.close()


class AsyncGitAnswer(GitAnswer):
    """Under ASGI Django closes what it iterates, but not what that reads from, and no answer whose
    sending fails: git would go on until the garbage collector comes.
    """

    def __init__(
        self, source: AsyncGenerator[bytes, None], held: ExitStack, content_type: str
    ) -> None:
        super().__init__(source, held, content_type)
        self.source = source

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self.source):
                async for piece in super().__aiter__():
                    yield piece
        finally:
            await asyncio.to_thread(self.held.close)


class PushAnswer(HttpResponse):
    """The report of a push. After it has been sent, what is left of the body is read and dropped;
    what is `held` stays held until then.
    """

    def __init__(self, report: bytes, rest: Iterator[bytes], held: ExitStack) -> None:
        kind = "application/x-git-receive-pack-result"
        super().__init__(report, content_type=kind, headers={"Cache-Control": "no-cache"})
        self.rest = rest
        self.held = held.pop_all()

    def close(self) -> None:
        super().close()
        with self.held, suppress(ApiError):  # the client has left
            _drop(self.rest, DROPPED_LATER, DROP_LATER_SECONDS)


def answer(
    request: HttpRequest,
    start: Start,
    content_type: str,
    *,
    first: bytes = b"",
    held: ExitStack | None = None,
    packer: Packer | None = None,
) -> GitAnswer:
    """Stream what the git that `start` gives writes. However the answer ends, git ends with it,
    and then what is `held`.

    What a `packer` packs has to be all that there is: if git fails, the connection is cut.
    """
    if isinstance(request, ASGIRequest):
        # Django would collect a synchronous iterator into a list before sending it. And it drops
        # an answer whose client has gone before it was made, so that nothing may have begun yet.
        output = async_output(start, first, packer)
        return AsyncGitAnswer(output, (held or ExitStack()).pop_all(), content_type)
    source = SyncOutput(start(), first, packer)
    return GitAnswer(source, (held or ExitStack()).pop_all(), content_type)


class SyncOutput:
    """git's output for a WSGI server, which calls `close` when done or when the client left. Its
    beginning is read at once: while nothing has been sent, a git that fails can be told as such.
    """

    def __init__(self, process: GitProcess, first: bytes, packer: Packer | None = None) -> None:
        self.process = process
        self.rest = self.packed(packer) if packer else self.written()
        try:
            self.first = first or next(self.rest, b"")
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        if self.first:
            yield self.first
        yield from self.rest

    def packed(self, packer: Packer) -> Iterator[bytes]:
        for piece in self.written():
            if packed := packer.compress(piece):
                yield packed
        if packed := last_piece(self.process, packer):
            yield packed

    def written(self) -> Iterator[bytes]:
        output: Any = self.process.stdout
        waiting = poll()
        waiting.register(output, POLLIN)
        while waiting.poll(SILENCE * 1000) and (piece := output.read1(PIECE)):
            yield piece

    def close(self) -> None:
        end(self.process)


async def async_output(
    start: Start, first: bytes, packer: Packer | None
) -> AsyncGenerator[bytes, None]:
    """git's output for an ASGI server, read only as fast as the client takes it."""
    loop = asyncio.get_running_loop()
    async with running(start) as process:
        reader = asyncio.StreamReader(limit=PIECE)
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        # Else the loop would go on watching a number that is soon another file's.
        with closing(pipe):
            if first:
                yield first
            while piece := await next_piece(reader):
                if packer is None:
                    yield piece
                elif packed := await asyncio.to_thread(packer.compress, piece):
                    yield packed
            if packer is not None and (
                last := await asyncio.to_thread(last_piece, process, packer)
            ):
                yield last


def last_piece(process: GitProcess, packer: Packer) -> bytes:
    """The end of a packed answer; `BrokenOff` when git has not written all of it."""
    if not ends_well(process, LAST_SECONDS):
        raise BrokenOff(f"git ended with {process.returncode} in the middle of an answer")
    return packer.flush()


async def next_piece(reader: asyncio.StreamReader) -> bytes:
    """What has come; nothing at the end, and where nothing comes for `SILENCE` seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SILENCE):
            return await reader.read(PIECE)
    return b""


@asynccontextmanager
async def running(start: Start) -> AsyncIterator[GitProcess]:
    """git, started and ended beside the loop: either may take a while.

    A client that leaves meanwhile interrupts the waiting, but not the start: that is ended after.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        yield await asyncio.shield(starting)
    finally:
        starting.add_done_callback(_end_started)


def _end_started(starting: asyncio.Future[GitProcess]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        Thread(target=end, args=[starting.result()]).start()


def end(process: GitProcess) -> None:
    """Make sure that the process has ended, and close its pipes."""
    kill_group(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
