"""Connections without requests."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from select import select
from typing import Any
from urllib.parse import urlsplit

import pytest

from config.connections import end_idle
from config.server import allow_many_files
from tests.server import PATIENCE, Server

pytestmark = pytest.mark.once

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
NO_HEADS = [b"", b"GET / HTTP/1.1\r\nHost: here\r\n", b"\r\n\r\n", b"\r\n\r\n\r\n\r\n"]


class Echo(asyncio.Protocol):
    """A server that echoes, and ends with its client."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def ends(pieces: list[bytes], within: float) -> bool:
    """Whether a server with a timeout of 0.1 s closes a connection with these pieces."""
    loop = asyncio.get_running_loop()
    end_idle(loop, 0.1)
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await reader.readexactly(len(piece))
        try:
            async with asyncio.timeout(within):
                return await reader.read() == b""
        except TimeoutError:
            return False
        finally:
            writer.close()


@pytest.mark.parametrize("sent", NO_HEADS)
def test_a_connection_without_a_whole_head_is_ended(sent: bytes) -> None:
    assert asyncio.run(ends([sent], within=60))


@pytest.mark.parametrize("pieces", [[HEAD], [HEAD[:-1], HEAD[-1:]], [b"\r\n" + HEAD, b"more"]])
def test_a_connection_whose_request_has_begun_is_the_servers(pieces: list[bytes]) -> None:
    assert not asyncio.run(ends(pieces, within=0.3))


@pytest.fixture
def few_files() -> Iterator[tuple[int, int]]:
    """Fewer files than the system allows, at first."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_may_open_as_many_files_as_the_system_allows(few_files: tuple[int, int]) -> None:
    allow_many_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files[1], few_files[1])


@pytest.mark.slow
@pytest.mark.once
def test_a_connection_stays_open_for_longer_than_clients_keep_one(server: Server) -> None:
    """By default gunicorn's workers close it after two seconds: a request could be on its way, and
    its client would not know whether it was carried out.
    """
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        assert select([connection.sock], [], [], 4) == ([], [], [])
