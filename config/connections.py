"""Closes connections without a request, under ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

WAITING = 60
"""Seconds in which the whole head of a connection's first request must arrive."""
END = b"\r\n\r\n"


def end_idle(loop: asyncio.AbstractEventLoop, seconds: float = WAITING) -> None:
    """Let the servers that this loop creates from now on close connections without a whole request
    head in time.

    gunicorn has a timeout between two requests, but none before the first: a client that sends
    nothing, or half a head, would keep a file open for good, and the number of open files is
    limited. gunicorn creates its protocol itself, and `create_server` is the one place before it.
    """
    create_server: Any = loop.create_server

    async def create(factory: Callable[[], asyncio.Protocol], *args: Any, **options: Any) -> Any:
        return await create_server(lambda: FirstHead(factory(), seconds), *args, **options)

    # mypy forbids this for all methods; the attribute of an instance may be set, and is public.
    loop.create_server = create  # type: ignore[assignment, method-assign]


class FirstHead(asyncio.Protocol):
    """Wraps a server's protocol until the head of the first request has arrived."""

    def __init__(self, protocol: asyncio.Protocol, seconds: float) -> None:
        self.protocol, self.seconds = protocol, seconds
        self.last = b""
        """The last bytes, which may be the beginning of the end of the head."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.timer = asyncio.get_running_loop().call_later(self.seconds, transport.abort)
        self.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        # Empty lines before a request do not belong to it.
        received = self.last + data if self.last else data.lstrip(b"\r\n")
        self.last = received[1 - len(END) :]
        if END in received:
            self.timer.cancel()
            self.transport.set_protocol(self.protocol)
        self.protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self.protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.timer.cancel()
        self.protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()
