"""Connections on which no request comes, ended under ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

WAITING = 60
"""Seconds in which the first request of a connection has to begin: its whole head."""
END = b"\r\n\r\n"


def end_idle(loop: asyncio.AbstractEventLoop, seconds: float = WAITING) -> None:
    """Let the servers that this loop creates from now on close connections without a whole request
    head in time.

    gunicorn has a timeout between two requests, but none before the first: a client that sends
    nothing, or half a head, would keep a file open for good, and a process may open so many only.
    gunicorn creates its protocol itself, and `create_server` is the one place before it.
    """
    create_server: Any = loop.create_server

    async def create(factory: Callable[[], asyncio.Protocol], *places: Any, **options: Any) -> Any:
        return await create_server(lambda: FirstHead(factory(), seconds), *places, **options)

    # mypy forbids it for every method; that of an instance may be set, and is public.
    loop.create_server = create  # type: ignore[assignment, method-assign]


class FirstHead(asyncio.Protocol):
    """Stands before a server's protocol until the head of the first request has come."""

    def __init__(self, served: asyncio.Protocol, seconds: float) -> None:
        self.served, self.seconds = served, seconds
        self.seen = b""
        """The last bytes, as many as may belong to the end of the head."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.timer = asyncio.get_running_loop().call_later(self.seconds, transport.abort)
        self.served.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        # Empty lines before a request are none of it.
        seen = self.seen + data if self.seen else data.lstrip(b"\r\n")
        self.seen = seen[1 - len(END) :]
        if END in seen:
            self.timer.cancel()
            self.transport.set_protocol(self.served)
        self.served.data_received(data)

    def eof_received(self) -> bool | None:
        return self.served.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.timer.cancel()
        self.served.connection_lost(error)

    def pause_writing(self) -> None:
        self.served.pause_writing()

    def resume_writing(self) -> None:
        self.served.resume_writing()
