"""Workers without requests."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import closing
from copy import copy
from http.client import HTTPConnection
from select import select
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from apps.core.workers import Workers
from config.connections import Acceptor, accept_here
from config.server import allow_many_files
from tests.server import PATIENCE, Server
from tests.waiting import eventually_in_loop

pytestmark = pytest.mark.once

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
NO_HEADS = [b"", b"GET / HTTP/1.1\r\nHost: here\r\n", b"\r\n\r\n", b"\r\n\r\n\r\n\r\n"]


class Echo(asyncio.Protocol):
    """A server that echoes, and ends with its client."""

    open: ClassVar[set[Any]] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.open.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.open.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def ends(pieces: list[bytes], within: float) -> bool:
    """Whether a server with a timeout of 0.1 s closes a connection with these pieces."""
    loop = asyncio.get_running_loop()
    accept_here(loop, 0.1)
    listening = socket.create_server(("127.0.0.1", 0))
    with closing(await loop.create_server(Echo, sock=listening)):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
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
            await eventually_in_loop(lambda: not Echo.open)


@pytest.mark.parametrize("sent", NO_HEADS)
def test_a_connection_without_a_whole_head_is_ended(sent: bytes) -> None:
    assert asyncio.run(ends([sent], within=60))


@pytest.mark.parametrize("pieces", [[HEAD], [HEAD[:-1], HEAD[-1:]], [b"\r\n" + HEAD, b"more"]])
def test_a_connection_whose_request_has_begun_is_the_servers(pieces: list[bytes]) -> None:
    assert not asyncio.run(ends(pieces, within=0.3))


async def accepted_by(first: Workers, second: Workers) -> list[int]:
    """The numbers of connections that two servers of one socket accept of eight."""
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    shared = [Acceptor(loop, Echo, listening.dup(), workers) for workers in (first, second)]
    clients = [await asyncio.open_connection(*address) for _ in range(8)]
    for reader, writer in clients:
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
    counts = first.connections.tolist()[:2]
    for _, writer in clients:
        writer.close()
    await eventually_in_loop(lambda: first.connections.tolist()[:2] == [0, 0])
    for each in shared:
        each.close()
    listening.close()
    return counts


def two_workers() -> tuple[Workers, Workers]:
    """The counts as two workers see them."""
    first = Workers()
    first.assign("first")
    second = copy(first)
    second.assign("second")
    return first, second


def test_two_processes_accept_equal_parts_of_a_burst() -> None:
    assert asyncio.run(accepted_by(*two_workers())) == [4, 4]


def test_a_process_accepts_what_a_busy_one_does_not() -> None:
    """The other one has fewer connections, but no loop that runs."""
    first, second = two_workers()

    async def story() -> None:
        writers: list[asyncio.StreamWriter] = []
        loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        with closing(Acceptor(loop, Echo, listening, first)):
            for _ in range(3):
                reader, writer = await asyncio.open_connection(*listening.getsockname())
                writer.write(b"a")
                assert await reader.readexactly(1) == b"a"
                writers.append(writer)
            for writer in writers:
                writer.close()
            await eventually_in_loop(lambda: not Echo.open)

    asyncio.run(story())
    assert second.connections[1] == 0


def test_the_place_of_a_worker_that_has_ended_is_free_for_the_next() -> None:
    first, second = two_workers()
    first.add_connections(3)
    second.add_connections(2)
    assert first.is_ahead()
    assert not second.is_ahead()
    second.forget("second")
    assert not first.is_ahead()
    third = copy(second)
    third.assign("third")
    assert (third.place, third.connections[1]) == (1, 0)


def test_the_streams_of_a_user_are_counted_in_all_workers() -> None:
    first, second = two_workers()
    for workers in (first, second, second):
        workers.streams.add(workers.place, 7)
        workers.streams.add(workers.place, 8)
    second.streams.remove(second.place, 8)
    assert [first.streams.count(user) for user in (7, 8, 9)] == [3, 2, 0]
    second.streams.add(second.place, 9)
    second.forget("second")
    assert [first.streams.count(user) for user in (7, 8, 9)] == [1, 1, 0]


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
