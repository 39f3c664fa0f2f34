"""A database that does not answer: requests end soon, and the process goes on."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Thread
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection

from tests.server import Server
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]
THREADS = 8
"""As many threads as `gunicorn` has in these tests: one more than the requests that wait for the
database.
"""
MANY = 10 * THREADS
"""Each would wait 4 s for a connection, and the last one with a thread 40 s."""
SOON = 10.0
"""Seconds for one request: 5 are promised, and waiting in turn took 12."""
PATHS = [
    "/api/v1/teams",
    "/api/v1/teams",
    "/api/v1/teams",
    "/",
    "/nowhere",
    "/admin/",
    "/teams/acme/x.git/info/refs?service=git-upload-pack",
]


def status_of(server: Server, path: str) -> tuple[int, bytes, float]:
    begin = time.monotonic()
    with closing(server.connect()) as connection:
        connection.request("GET", path, headers={"Cookie": f"sessionid={'x' * 32}"})
        response: http.client.HTTPResponse = connection.getresponse()
        return response.status, response.read(), time.monotonic() - begin


@pytest.fixture(params=["gunicorn", "gunicorn-asgi"])
def cut_off(request, tmp_path) -> Iterator[Server]:
    """A server whose database accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgres://x@127.0.0.1:{silent.getsockname()[1]}/x"
        server = Server(tmp_path, request.param, DATABASE_URL=url, SECRET_KEY="tests-only")
        server.fresh = False  # tables cannot be created
        server.file.parent.mkdir()
        server.file.with_name("installation").write_text("not compared with any")
        with server:
            yield server


def refused(server: Server, paths: list[str]) -> float:
    """The longest time of requests to these paths at once, which are all 503."""
    with ThreadPoolExecutor(len(paths)) as pool:
        begun = [pool.submit(status_of, server, path) for path in paths]
        assert status_of(server, "/healthz")[:2] == (200, b"ok\n")
        answers = [one.result() for one in begun]
    assert {status for status, _, _ in answers} == {503}
    return max(seconds for _, _, seconds in answers)


def test_requests_are_503_soon_while_the_database_takes_connections_and_says_nothing(cut_off):
    assert refused(cut_off, PATHS) < SOON
    assert b"unavailable" in status_of(cut_off, "/api/v1/teams")[1]


def test_readyz_is_503_soon_for_everybody_and_the_log_has_the_reason(cut_off):
    status, content, seconds = status_of(cut_off, "/readyz")
    assert (status, content) == (503, b"unready\n") and seconds < SOON
    eventually(lambda: "Not ready: database: " in cut_off.log)


def test_a_database_that_is_away_holds_the_threads_only_once(cut_off):
    assert refused(cut_off, ["/api/v1/teams"] * MANY) < 2 * SOON


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own")
def test_requests_are_answered_again_once_the_database_is_back(tmp_path, new_server):
    """A gateway in front of the real server is closed for a while."""
    server = new_server(tmp_path, "gunicorn")
    with Gateway(server.database) as gateway, ThreadPoolExecutor(THREADS) as pool:
        server.environment["DATABASE_URL"] = gateway.url
        with server:
            gateway.close()
            begun = [pool.submit(status_of, server, "/api/v1/teams") for _ in range(THREADS)]
            assert {one.result()[0] for one in begun} == {503}
            gateway.is_open = True
            eventually(lambda: status_of(server, "/api/v1/teams")[0] == 401)


class Gateway:
    """A gateway to a server; while it is closed it accepts connections and answers nothing."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.server = str(parts.hostname), parts.port or 5432
        self.is_open = True
        self.lines: list[socket.socket] = []
        self.threads: list[Thread] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        here = (
            f"{parts.username}:{parts.password or ''}@127.0.0.1:{self.listening.getsockname()[1]}"
        )
        self.url = urlunsplit(parts._replace(netloc=here))

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.close()
        for thread in self.threads:
            thread.join()
        for line in (self.listening, *self.lines):
            line.close()

    def close(self) -> None:
        """Close all connections and refuse new ones."""
        self.is_open = False
        for line in self.lines:
            with suppress(OSError):  # the other side has closed it
                line.shutdown(socket.SHUT_RDWR)

    def _start(self, function: Callable[..., None], *args: object) -> None:
        self.threads.append(Thread(target=function, args=args, daemon=True))
        self.threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):  # it does not listen any more
            while True:
                line = self.listening.accept()[0]
                self.lines.append(line)
                if self.is_open:
                    onward = socket.create_connection(self.server)
                    self.lines.append(onward)
                    self._start(pass_on, line, onward)
                    self._start(pass_on, onward, line)


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_RDWR)
