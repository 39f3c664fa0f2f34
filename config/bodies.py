"""Request bodies under ASGI: bounded ones, and those that their views read as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from io import BytesIO
from typing import Any

from django.core.exceptions import RequestAborted

from apps.core.body_limits import FREE, LONGEST, body_memory, too_slow
from apps.core.errors import BadRequest
from apps.core.locks import give_back_connection
from apps.core.slots import Hold, Slots

LIMIT = 16 * 1024 * 1024
"""Bytes that are taken of a body nobody reads, and given to whoever reads one without a size."""
BUFFERED = 2_621_440
"""Bytes of a body that are held in memory, as many as Django accepts of a form; `UPLOAD_LIMIT` of a
request with an upload.
"""
WAITED_FOR = 1024 * 1024
"""Least bytes counted for a body while its view waits for the rest, which keeps a thread busy."""

Receive = Callable[[], Awaitable[Any]]


class BufferedBody:
    """The body of a request whose view begins when all of it has come.

    It is held up to its limit and one byte more, by which its reader sees that it is too large. The
    rest is taken from the client, so that it gets to read the answer, and dropped.
    """

    def __init__(
        self, receive: Receive, caller: str, limit: int = BUFFERED, memory: Slots = body_memory
    ) -> None:
        """`caller`: the address from which it comes."""
        self.receive = receive
        self.limit = limit
        self.hold = Hold(memory, caller)

    async def __call__(self) -> Any:
        return await self.receive()

    async def whole(self) -> BytesIO:
        """All that is held of it. Raises `RequestAborted` when the client leaves, `BadRequest` when
        it takes more than `LONGEST` seconds, and `Unavailable` when all bodies together are too
        large.
        """
        try:
            async with asyncio.timeout(LONGEST):
                return await self._collect()
        except TimeoutError:
            raise too_slow(LONGEST) from None

    async def _collect(self) -> BytesIO:
        buffer, message = BytesIO(), await self.receive()
        while message["type"] != "http.disconnect":
            buffer.write(message.get("body", b"")[: self.limit + 1 - buffer.tell()])
            self.hold.grow_to(buffer.tell())
            if not message.get("more_body"):
                buffer.getvalue()  # shrinks it to the body, so that it is read without a copy
                buffer.seek(0)
                return buffer
            message = await self.receive()
        raise RequestAborted


class StreamedBody:
    """The body of a request whose view reads it while it comes.

    The event loop calls it for the next message of the server, as it would call `receive`; the
    thread of the view reads it as a file.
    """

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set when the body has come to its end, or the client has left."""
        self.rest = b""

    async def __call__(self) -> Any:
        message = await self.receive()
        if not message.get("more_body"):
            self.ended.set()
        return message

    async def discard(self) -> None:
        """Take from the client what the view has not read, up to the limit: the end of a connection
        that has unread bytes may reach the client before the answer does.
        """
        room = LIMIT
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST):
                while room > 0 and not self.ended.is_set():
                    room -= len((await self()).get("body", b""))

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, as soon as there are any; none at the end of the body. Without a
        size all of the body, but no more than the limit and one byte.

        Raises `BadRequest` when client or server end before the body does.
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
        return self._taken(self())

    def _taken(self, waiting: Coroutine[Any, Any, Any]) -> bytes:
        """The piece in the message that the event loop waits for."""
        try:
            message = asyncio.run_coroutine_threadsafe(waiting, self.loop).result()
        except (CancelledError, RuntimeError):  # the second when the loop has been closed
            waiting.close()
            message = {"type": "http.disconnect"}
        if message["type"] == "http.disconnect":
            raise BadRequest("malformed_request", "The request ended before its body did.")
        return bytes(message.get("body", b""))

    def close(self) -> None:
        """Files have this method; here is nothing to close."""


class ApiBody(StreamedBody):
    """The body of a request of the API. A small one is there when its view begins. Of a larger one
    the view begins when the first 64 KiB are there, and asks who sends it before it reads the rest:
    more is held of no request that it refuses.
    """

    def __init__(
        self, receive: Receive, caller: str, limit: int = BUFFERED, memory: Slots = body_memory
    ) -> None:
        """`caller`: the address from which it comes."""
        super().__init__(receive)
        self.limit = limit
        self.hold = Hold(memory, caller)
        self.until = self.loop.time() + LONGEST

    async def begin(self) -> None:
        """Wait until all of a small body has come, or enough of a large one. Raises as `whole` of
        `BufferedBody`.
        """
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
            return await self()

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end of the body; without a size all of it, but no more than
        the limit and one byte. The thread gives its connection to the database back to wait.

        Raises `BadRequest` as above and when it takes too long, `Unavailable` when all bodies
        together are too large.
        """
        most = self.limit + 1 if size < 0 else size
        buffer = BytesIO()
        buffer.write(self.rest[:most])
        self.rest = self.rest[most:]
        if buffer.tell() < most and not self.ended.is_set():
            give_back_connection()
            while buffer.tell() < most and not self.ended.is_set():
                self.hold.grow_to(max(buffer.tell(), FREE + WAITED_FOR))
                piece = self._next()
                self.rest = piece[most - buffer.tell() :]
                buffer.write(piece[: most - buffer.tell()])
            self.hold.grow_to(buffer.tell())
        return buffer.getvalue()

    def _next(self) -> bytes:
        try:
            return self._taken(self._in_time())
        except TimeoutError:
            raise too_slow(LONGEST) from None
