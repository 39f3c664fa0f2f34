"""One HTTP request to a receiver: to a checked address, within a deadline, without redirects.

`Sender` keeps its connection for further requests to the same receiver. It uses httpcore2 with a
network backend of our own (docs/decisions/0036-httpcore2-sends-webhooks.md).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Self

import httpcore2
from django.conf import settings
from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkStream

from apps.core.threads import DaemonExecutor
from apps.webhooks.addresses import Address, is_allowed

DEADLINE = 15.0
"""Seconds for a whole attempt, from the lookup of the name to the end of the response."""
CONNECT_DEADLINE = 5.0
"""Seconds for the lookup and the connection, and again for the handshake of TLS."""
ADDRESSES = 4
"""The maximum number of addresses of a name that are tried."""
READ_BYTES = 64 * 1024
"""Bytes of a response body that are read. A longer response is cut, and its connection closed."""
STORED_BYTES = 4 * 1024
STORED_HEADERS, STORED_HEADER_LENGTH = 50, 1000
LOOKUPS = DaemonExecutor("webhook-dns", 32)
"""The threads that look up names. A name server that does not answer blocks one for long."""
REDIRECTS = range(300, 400)

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Looks up a name and a port: the addresses, in order of preference; `OSError` without one."""


class BlockedAddress(Exception):
    """The name has an address that webhooks may not connect to."""


@dataclass(frozen=True)
class Message:
    """A request to send: `headers` with the signature, and the signed bytes."""

    address: Address
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt. `error`: a word, empty if the receiver answered 2xx.

    `headers` and `body` are the beginning of the response.
    """

    duration_ms: int
    error: str = ""
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def has_succeeded(self) -> bool:
        return self.error == ""


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name by the resolver of the system, in one of the `LOOKUPS`."""
    loop = asyncio.get_running_loop()
    stream = socket.SOCK_STREAM
    rows = await loop.run_in_executor(LOOKUPS, lambda: socket.getaddrinfo(host, port, type=stream))
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


class CheckedBackend(AnyIOBackend):
    """Connects to a name by one lookup: if any of its addresses is not allowed, to none.

    A second lookup could return another address than the checked one.
    """

    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self.is_connected = False
        """Whether the last connection came about. A later failure is one of TLS."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        self.is_connected = False
        async with asyncio.timeout(CONNECT_DEADLINE):
            addresses = await self.resolve(host, port)
            if not all(map(is_allowed, addresses)):
                raise BlockedAddress(host)
            stream = await self._connect(addresses[:ADDRESSES], port)
        self.is_connected = True
        return stream

    async def _connect(self, addresses: list[str], port: int) -> AsyncNetworkStream:
        """A connection to the first of these addresses that answers."""
        *others, last = addresses
        seconds = CONNECT_DEADLINE / len(addresses)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await super().connect_tcp(address, port, seconds)
        return await super().connect_tcp(last, port, seconds)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        raise BlockedAddress(path)


@cache
def tls_context() -> ssl.SSLContext:
    """Checks certificates by the authorities of the system. Loading these takes a moment."""
    return ssl.create_default_context()


class Sender:
    """`async with Sender() as sender:` sends messages to one receiver, one after the other."""

    def __init__(self, resolve: Resolve = look_up) -> None:
        self.backend = CheckedBackend(resolve)
        self.pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls_context(), max_connections=1, network_backend=self.backend
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.aclose()

    async def send(self, message: Message) -> Outcome:
        """Make one attempt. Every failure of the receiver is an outcome, none an exception."""
        begun = time.monotonic()
        status, headers, body = None, dict[str, str](), b""
        try:
            async with asyncio.timeout(DEADLINE):
                status, headers, body = await self._exchange(message)
            error = error_of_status(status)
        except (httpcore2.TimeoutException, TimeoutError):
            error = "timeout"
        except BlockedAddress:
            error = "blocked_address"
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError, ValueError) as problem:
            error = error_of(problem, self.backend.is_connected)
        duration_ms = int((time.monotonic() - begun) * 1000)
        return Outcome(duration_ms, error, status, headers, stored_text(body))

    async def _exchange(self, message: Message) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the response, as far as they are stored."""
        address = message.address
        if address.scheme == "http" and not settings.WEBHOOK_ALLOW_HTTP:
            raise BlockedAddress(address.host)
        url = httpcore2.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=address.port,
            target=address.target.encode(),
        )
        headers = {"host": address.host_header, **message.headers}
        headers["content-length"] = str(len(message.body))
        # Only the handshake has this timeout: the deadline of the attempt ends all else.
        extensions = {"timeout": {"connect": CONNECT_DEADLINE}}
        async with self.pool.stream(
            "POST",
            url,
            headers=[(name.encode(), value.encode()) for name, value in headers.items()],
            content=message.body,
            extensions=extensions,
        ) as response:
            body = await read_beginning(response)
            return response.status, stored_headers(response.headers), body


async def read_beginning(response: httpcore2.Response) -> bytes:
    """At most `READ_BYTES` of the body, and a last piece."""
    body = b""
    async for piece in response.aiter_stream():
        body += piece
        if len(body) >= READ_BYTES:
            break
    return body


def stored_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The first headers of a response as text, with names in lower case."""
    texts = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in pairs}
    some = list(texts.items())[:STORED_HEADERS]
    return {name: value[:STORED_HEADER_LENGTH] for name, value in some}


def stored_text(body: bytes) -> str:
    """The beginning of a body. PostgreSQL stores no NUL."""
    text = body[:STORED_BYTES].decode(errors="replace")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def error_of_status(status: int) -> str:
    if 200 <= status < 300:
        return ""
    return "redirect" if status in REDIRECTS else "status"


def error_of(problem: Exception, is_connected: bool) -> str:
    """The word for a failure of the connection or of the protocol."""
    if isinstance(problem, socket.gaierror | UnicodeError):
        return "dns"
    if isinstance(problem, httpcore2.ConnectError):
        return "tls" if is_connected else "refused"
    return "protocol" if isinstance(problem, httpcore2.ProtocolError) else "disconnected"
