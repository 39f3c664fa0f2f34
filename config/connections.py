"""Accepts connections under ASGI: from several processes in equal parts, and not without end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from apps.core.workers import Workers, workers

WAITING = 60
"""Seconds in which the whole head of a connection's first request must arrive."""
END = b"\r\n\r\n"
LEFT_TO_OTHERS = 0.01
"""Seconds in which a process with fewer connections may take a new one."""
PAUSE = 1.0
"""Seconds without accepting after an error, such as too many open files."""

Factory = Callable[[], asyncio.Protocol]


def accept_here(loop: asyncio.AbstractEventLoop, seconds: float = WAITING) -> None:
    """Let servers that this loop creates for a socket accept their connections by `Acceptor`.

    gunicorn creates its protocol itself, and `create_server` is the one place before it.
    """
    create_server: Any = loop.create_server

    async def create(factory: Factory, *args: Any, sock: Any = None, **options: Any) -> Any:
        if sock is None:
            return await create_server(lambda: FirstHead(factory(), seconds), *args, **options)
        return Acceptor(loop, lambda: FirstHead(factory(), seconds), sock)

    # mypy forbids this for all methods; the attribute of an instance may be set, and is public.
    loop.create_server = create  # type: ignore[assignment, method-assign]


class Connection(socket.socket):
    """A connection of this process, counted until it is closed."""

    workers: Workers | None = None

    def close(self) -> None:
        if self.workers and self.fileno() != -1:
            self.workers.add_connections(-1)
        super().close()


class Acceptor:
    """Accepts connections one by one, unless another process has fewer.

    asyncio's own server accepts all that wait: of several processes, one would get a whole burst.
    It has the methods of `asyncio.Server` that gunicorn calls.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Factory,
        listening: socket.socket,
        workers: Workers = workers,
    ) -> None:
        self.loop, self.factory, self.listening, self.workers = loop, factory, listening, workers
        self.is_open = True
        self.has_waited = False
        self.tasks: set[asyncio.Task[Any]] = set()
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self.loop.remove_reader(self.listening)
            self.listening.close()

    async def wait_closed(self) -> None:
        """Return: connections are counted by gunicorn itself."""

    def _resume(self) -> None:
        if self.is_open:
            self.loop.add_reader(self.listening, self._accept)

    def _pause(self, seconds: float) -> None:
        self.loop.remove_reader(self.listening)
        self.loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        if self.workers.is_ahead() and not self.has_waited:
            self.has_waited = True
            self._pause(LEFT_TO_OTHERS)
            return
        self.has_waited = False
        try:
            accepted, _ = self.listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._pause(PAUSE)
            return
        connection = Connection(fileno=accepted.detach())
        self.workers.add_connections(1)
        connection.workers = self.workers
        connection.setblocking(False)
        task = self.loop.create_task(self._connect(connection))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _connect(self, connection: Connection) -> None:
        try:
            await self.loop.connect_accepted_socket(self.factory, connection)
        except OSError:  # the client has gone
            connection.close()


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
