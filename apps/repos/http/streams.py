"""Streams bytes between a request and a git process."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from select import POLLIN, poll
from threading import Thread
from time import monotonic
from typing import IO, Any, Protocol, TypeAlias, cast

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from apps.core.body_limits import LONGEST, body_memory, too_slow
from apps.core.errors import ApiError, BadRequest
from apps.core.parsers import broken_off, too_large
from apps.git.run import GitError, GitProcess, ends_well, kill_group

PIECE = 64 * 1024
PACKED_LIMIT = 16 * 1024 * 1024
"""Most bytes of a gzip body, compressed or not. git compresses long fetch requests, JGit pushes."""
DROPPED = 16 * 1024 * 1024
"""Most bytes read from a refused push. Clients read the answer only after sending the body."""
SILENCE = 60
"""Seconds after which a silent git is killed. While it packs, git writes a keep-alive every five
seconds if the client supports that (`uploadpack.keepAlive`), so that a lost client is noticed.
"""
DROP_SECONDS = 60.0
"""Most seconds in which `DROPPED` bytes are read: a client may send them one by one."""
DROPPED_LATER = 2 * 1024 * 1024 * 1024
"""Most bytes read after the answer to a push: the most that a push may have. git reads the answer
only after it has sent everything.
"""
DROP_LATER_SECONDS = 600.0
GZIP = 16 + zlib.MAX_WBITS

LAST_SECONDS = 10.0
"""Seconds that git may take to end after its last byte."""

Start: TypeAlias = Callable[[], GitProcess]


class BrokenOff(GitError):
    """git failed while it wrote an answer. If bytes have been sent, the connection is cut, so that
    the client notices; before the first byte it is answered like any GitError.
    """


class Packer(Protocol):
    """Compresses git's output; the interface of `zlib.compressobj`."""

    def compress(self, piece: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class Bounded:
    """A `Packer` that raises `BrokenOff` if git writes more than `most` bytes. It compresses by
    `packer`, if there is one.
    """

    def __init__(self, packer: Packer | None, most: int) -> None:
        self.packer, self.most = packer, most

    def compress(self, piece: bytes) -> bytes:
        self.most -= len(piece)
        if self.most < 0:
            raise BrokenOff("git wrote more bytes than an answer may have")
        return self.packer.compress(piece) if self.packer else piece

    def flush(self) -> bytes:
        return self.packer.flush() if self.packer else b""


def pieces(request: HttpRequest) -> Iterator[bytes]:
    """The body in pieces, inflated if it is gzip. 400 if it is malformed, or if the client
    disconnects or stops sending.

    Under WSGI a chunked body has no length; only the server's own stream finds its end.
    """
    stream: Any = request
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        stream = request.META.get("wsgi.input", request)
    is_packed = request.META.get("HTTP_CONTENT_ENCODING", "") in {"gzip", "x-gzip"}
    return inflated(read_from(stream)) if is_packed else read_from(stream)


def read_from(stream: Any) -> Iterator[bytes]:
    try:
        while piece := stream.read(PIECE):
            yield piece
    except ApiError:
        raise
    except Exception:  # malformed chunks or a timeout: each server has its own errors
        raise broken_off() from None


def inflated(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Inflate a gzip stream in pieces of limited size; 413 for more than `PACKED_LIMIT` bytes."""
    unpacker = zlib.decompressobj(GZIP)
    packed = unpacked = 0
    try:
        for piece in raw:
            packed, rest = packed + len(piece), piece
            while rest:
                if unpacker.eof:  # bytes behind the end, which zlib would buffer
                    raise broken_gzip()
                out = unpacker.decompress(rest, PIECE)
                unpacked += len(out)
                if max(packed, unpacked) > PACKED_LIMIT:
                    drop(raw)  # or the client may see a closed connection, not the 413
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
    """Read the rest of a refused push: at most `DROPPED` bytes, for at most `DROP_SECONDS`."""
    _drop(body, DROPPED, DROP_SECONDS)


class PushBody:
    """The body of a push in pieces. Over HTTP it ends with the request; the bodies of other
    transports replace the methods.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self.pieces)

    def drop(self) -> None:
        """Read the rest of a refused push, since the client reads the report after sending it."""
        drop(self.pieces)

    def finish(self) -> None:
        """Called, from another thread than the reading one, when git needs no more bytes."""


def _drop(body: Iterator[bytes], most: int, seconds: float) -> None:
    ends = monotonic() + seconds
    for piece in body:
        most -= len(piece)
        if most <= 0 or monotonic() > ends:
            return


def collected(body: Iterator[bytes], limit: int, held: ExitStack, caller: str) -> bytes:
    """Receive a small body. Its memory is counted for the caller until `held` is closed.

    413 for more than `limit` bytes after inflating, 400 if it takes more than `LONGEST` seconds,
    503 if all bodies together take too much memory.
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


def feeding(start: Start, body: bytes) -> Start:
    """A `start` whose git gets `body` from a thread, because git may answer while it reads."""

    def start_and_feed() -> GitProcess:
        process = start()
        Thread(target=_feed, args=(process, body), daemon=True).start()
        return process

    return start_and_feed


def _feed(process: GitProcess, body: bytes) -> None:
    stdin = cast("IO[bytes]", process.stdin)
    # git has ended, or the client disconnected and the pipe is closed.
    with suppress(BrokenPipeError, ValueError):
        stdin.write(body)
        stdin.close()


class GitAnswer(StreamingHttpResponse):
    """Streams git's output, and closes `held` once it has been sent."""

    def __init__(self, source: Any, held: ExitStack, content_type: str) -> None:
        headers = {"Cache-Control": "no-cache"}
        super().__init__(source, content_type=content_type, headers=headers)
        self.held = held

    def close(self) -> None:
        super().close()
        self.held.close()


class PushAnswer(HttpResponse):
    """The report of a push. After it is sent, the rest of the body is read and dropped, and `held`
    is closed.
    """

    def __init__(self, report: bytes, rest: Iterator[bytes], held: ExitStack) -> None:
        kind = "application/x-git-receive-pack-result"
        super().__init__(report, content_type=kind, headers={"Cache-Control": "no-cache"})
        self.rest = rest
        self.held = held.pop_all()

    def close(self) -> None:
        super().close()
        with self.held, suppress(ApiError):  # the client has disconnected
            _drop(self.rest, DROPPED_LATER, DROP_LATER_SECONDS)


def answer(
    start: Start,
    content_type: str,
    *,
    first: bytes = b"",
    held: ExitStack | None = None,
    packer: Packer | None = None,
) -> GitAnswer:
    """Stream the output of the git that `start` starts. When the answer ends, for whatever reason,
    git is ended and then `held` is closed.

    With a `packer`, a git that fails cuts the connection, because the answer must be complete.
    """
    source = Output(start(), first, packer)
    return GitAnswer(source, (held or ExitStack()).pop_all(), content_type)


class Output:
    """git's output, which the server closes at the end or when the client disconnects. The first
    piece is read at once: as long as nothing is sent, a failing git can be answered as an error.
    """

    def __init__(self, process: GitProcess, first: bytes, packer: Packer | None = None) -> None:
        self.process = process
        self.rest = self.packed(packer) if packer else self.written()
        try:
            piece = next(self.rest, b"")
            if first and not piece:
                raise BrokenOff("git has written nothing after the beginning of its answer")
            self.first = first + piece
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


def last_piece(process: GitProcess, packer: Packer) -> bytes:
    """The end of a compressed answer; `BrokenOff` if git failed."""
    if not ends_well(process, LAST_SECONDS):
        raise BrokenOff(f"git ended with {process.returncode} in the middle of an answer")
    return packer.flush()


def end(process: GitProcess) -> None:
    """Kill the process if it still runs, and close its pipes."""
    kill_group(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
