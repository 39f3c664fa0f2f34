"""A client of the live stream: `with opened(server, "alice", "scope=self") as stream:`."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from apps.core.slugs import PREFIX
from tests.api import Answer
from tests.server import PATIENCE, Server


@dataclass(frozen=True)
class Frame:
    """A received event: its id, its kind, and its payload with joined lines."""

    id: int
    kind: str
    data: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.data)


class Stream:
    """An open connection to `/tail-events`. A test fails if an expected event is late."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.last_id = 0

    def refusal(self) -> Answer:
        """The answer to a refused stream."""
        self.status_code, self.content = self.status, self.response.read()
        return Answer(self)

    def close(self) -> None:
        """Disconnect like a client that has gone away."""
        self.response.close()
        self.connection.close()

    def block(self) -> list[str]:
        """The lines of the next frame, comments included; empty at the end of the stream."""
        lines: list[str] = []
        while line := self.response.readline().decode():
            if line == "\n":
                return lines
            lines.append(line.removesuffix("\n"))
        return []

    def opened(self) -> Stream:
        """Read the opening frame, after which no event is missed."""
        assert (self.status, self.block(), self.block()) == (200, [": ok"], ["retry: 0"])
        return self

    def next(self) -> Frame | None:
        """The next event; None at the end of the stream."""
        lines = self.block()
        assert lines != [": heartbeat"], "nothing has come for long"
        if not lines:
            return None
        event_id, kind, *data = lines
        assert event_id.startswith("id: ") and kind.startswith("event: "), lines
        self.last_id = int(event_id[4:])
        text = "\n".join(line.removeprefix("data: ") for line in data)
        return Frame(self.last_id, kind[7:], text)

    def take(self, count: int) -> list[Frame]:
        """The next `count` events."""
        found = [self.next() for _ in range(count)]
        assert None not in found, found
        return [frame for frame in found if frame is not None]

    def kinds(self, count: int) -> list[str]:
        return [frame.kind for frame in self.take(count)]

    def ids(self, count: int) -> list[int]:
        return [frame.id for frame in self.take(count)]


@contextmanager
def follow(
    server: Server, name: str, query: str, *, token: str = "", buffer: int = 0, **headers: str
) -> Iterator[Stream]:
    """Request a stream for this person, or for the caller that the headers name; `buffer` limits
    the unread bytes in the kernel.
    """
    parts = urlsplit(server.url)
    with socket.socket() as connected:
        connected.settimeout(PATIENCE)
        if buffer:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connected.connect((parts.hostname, parts.port))
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
        connection.sock = connected
        sent = {"Authorization": f"Bearer {token or server.token(name)}"} if name else {}
        sent.update({key.replace("_", "-"): value for key, value in headers.items()})
        connection.request("GET", f"{PREFIX}/tail-events?{query}", headers=sent)
        stream = Stream(connection)
        try:
            yield stream
        finally:
            stream.close()


@contextmanager
def opened(server: Server, name: str, query: str, **options: Any) -> Iterator[Stream]:
    """An accepted stream, read past its opening frame."""
    with follow(server, name, query, **options) as stream:
        yield stream.opened()
