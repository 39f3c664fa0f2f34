"""Request bodies under ASGI: buffered ones, and those that views read while they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from io import BytesIO, UnsupportedOperation
from typing import Any

from django.core.exceptions import RequestAborted

from apps.core.body_limits import FREE, LONGEST, body_memory, too_slow
from apps.core.errors import BadRequest
from apps.core.locks import give_back_connection
from apps.core.slots import Hold, Slots

LIMIT = 16 * 1024 * 1024
"""Maximum bytes that are received of an unread body, and returned by a read without a size."""
BUFFERED = 2_621_440
"""Maximum bytes of a body in memory, as many as Django accepts for a form. A request with an upload
may have `UPLOAD_LIMIT`.
"""
WAITING_WEIGHT = 1024 * 1024
"""Minimum weight of a body while its view waits for the rest, and occupies a thread."""

Receive = Callable[[], Awaitable[Any]]


class BufferedBody:
    """The body of a request whose view starts when all of it has arrived.

    It is stored up to its limit and one byte more, which shows that it is too large. The rest is
    received and dropped: clients read no answer before they have sent all.
    """

    def __init__(
        self, receive: Receive, caller: str, limit: int = BUFFERED, memory: Slots = body_memory
    ) -> None:
        """`caller`: the address of the client."""
        self.receive = receive
        self.limit = limit
        self.hold = Hold(memory, caller)

    async def begin(self, environ: dict[str, Any]) -> None:
        """Receive the body for this WSGI request. Raises `RequestAborted` if the client
        disconnects, `BadRequest` if it takes more than `LONGEST` seconds, and `Unavailable` if all
        bodies together are too large.
        """
        try:
            async with asyncio.timeout(LONGEST):
                environ["wsgi.input"] = buffer = await self._collect()
        except TimeoutError:
            raise too_slow(LONGEST) from None
        environ["CONTENT_LENGTH"] = str(len(buffer.getbuffer()))

    async def left(self) -> None:
        """Wait until the client disconnects."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def release(self) -> None:
        """Return the memory of the body."""
        self.hold.release()

    async def discard(self) -> None:
        """Do nothing: all of the body was received."""

    async def _collect(self) -> BytesIO:
        buffer, message = BytesIO(), await self.receive()
        while message["type"] != "http.disconnect":
            buffer.write(message.get("body", b"")[: self.limit + 1 - buffer.tell()])
            self.hold.grow_to(buffer.tell())
            if not message.get("more_body"):
                buffer.getvalue()  # shrinks the buffer, and allows reading without a copy
                buffer.seek(0)
                return buffer
            message = await self.receive()
        raise RequestAborted


class StreamedBody:
    """The body of a request whose view reads it while it arrives.

    The thread of the view reads it like a file, for which the event loop receives the messages of
    the server.
    """

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set at the end of the body, or when the client has disconnected."""
        self.rest = b""

    async def begin(self, environ: dict[str, Any]) -> None:
        """Let the view of this WSGI request read the body."""
        environ["wsgi.input"] = self

    async def left(self) -> None:
        """Wait until the client disconnects; its view may read the body until then."""
        await self.ended.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def release(self) -> None:
        """Do nothing: the body has no memory of its own."""

    async def next_message(self) -> Any:
        """The next message of the server, with a piece of the body."""
        message = await self.receive()
        if not message.get("more_body"):
            self.ended.set()
        return message

    async def discard(self) -> None:
        """Receive the bytes that the view has not read, up to the limit: closing a connection with
        unread bytes may prevent the client from reading the answer.
        """
        room = LIMIT
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                while room > 0 and not self.ended.is_set():
                    room -= len((await self.next_message()).get("body", b""))

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes as soon as there are any; none at the end of the body. Without a
        size all of the body, up to the limit and one byte.

        Raises `BadRequest` if the client or the server ends before the body.
        """
        if size < 0:
            return self._read_all()
        while not self.rest and not self.ended.is_set():
            self.rest = self._next()
        piece, self.rest = self.rest[:size], self.rest[size:]
        return piece

    def _read_all(self) -> bytes:
        whole = bytearray()
        while piece := self.read(LIMIT + 1 - len(whole)):
            whole += piece
        return bytes(whole)

    def _next(self) -> bytes:
        return self._await_piece(self.next_message())

    def _await_piece(self, receiving: Coroutine[Any, Any, Any]) -> bytes:
        """The piece of the next message, for which the event loop waits."""
        try:
            message = asyncio.run_coroutine_threadsafe(receiving, self.loop).result()
        except (CancelledError, RuntimeError):  # the latter if the loop was closed
            receiving.close()
            message = {"type": "http.disconnect"}
        if message["type"] == "http.disconnect":
            raise BadRequest("malformed_request", "The request ended before its body did.")
        return bytes(message.get("body", b""))

    def readline(self, size: int = -1) -> bytes:
        """Not supported. Django wants the method, and nothing here reads a body by lines."""
        raise UnsupportedOperation("readline")


class ApiBody(StreamedBody):
    """The body of a request of the API. The view starts when a small body has arrived, or the first
    64 KiB of a larger one. It checks access before it reads the rest: no more is stored of a
    refused request.
    """

    def __init__(
        self, receive: Receive, caller: str, limit: int = BUFFERED, memory: Slots = body_memory
    ) -> None:
        """`caller`: the address of the client."""
        super().__init__(receive)
        self.limit = limit
        self.hold = Hold(memory, caller)
        self.until = self.loop.time() + LONGEST

    async def begin(self, environ: dict[str, Any]) -> None:
        """Wait until a small body, or the first 64 KiB of a large one, has arrived. Raises the
        errors of `BufferedBody.begin`.
        """
        await super().begin(environ)
        buffer = BytesIO()
        try:
            while buffer.tell() < FREE and not self.ended.is_set():
                message = await self._in_time()
                if message["type"] == "http.disconnect":
                    raise RequestAborted
                buffer.write(message.get("body", b""))
        except TimeoutError:
            raise too_slow(LONGEST) from None
        self.rest = buffer.getvalue()

    async def _in_time(self) -> Any:
        async with asyncio.timeout_at(self.until):
            return await self.next_message()

    def release(self) -> None:
        """Return the memory of the body."""
        self.hold.release()

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end of the body; without a size all of it, up to the limit and
        one byte. Before it waits, the thread returns its connection to the database.

        Raises `BadRequest` as `StreamedBody.read`, and if it takes too long; `Unavailable` if all
        bodies together are too large.
        """
        most = self.limit + 1 if size < 0 else size
        buffer = BytesIO()
        buffer.write(self.rest[:most])
        self.rest = self.rest[most:]
        if buffer.tell() < most and not self.ended.is_set():
            give_back_connection()
            while buffer.tell() < most and not self.ended.is_set():
                self.hold.grow_to(max(buffer.tell(), FREE + WAITING_WEIGHT))
                piece = self._next()
                self.rest = piece[most - buffer.tell() :]
                buffer.write(piece[: most - buffer.tell()])
            self.hold.grow_to(buffer.tell())
        return buffer.getvalue()

    def _next(self) -> bytes:
        try:
            return self._await_piece(self._in_time())
        except TimeoutError:
            raise too_slow(LONGEST) from None
