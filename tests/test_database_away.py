"""A database that does not answer: requests end soon, and the process goes on."""

from __future__ import annotations

import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.once]
THREADS = 8
"""As many as `gunicorn` has in these tests: one more than requests that wait for the database."""
SOON = 10.0
"""Seconds for one request, of which 5 are promised; one that waited in turn for others took 12."""
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


@pytest.mark.parametrize("kind", ["gunicorn", "gunicorn-asgi"])
def test_requests_are_503_soon_while_the_database_takes_connections_and_says_nothing(
    tmp_path, kind
):
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(THREADS) as pool:
        url = f"postgres://x@127.0.0.1:{silent.getsockname()[1]}/x"
        server = Server(tmp_path, kind, DATABASE_URL=url)
        server.fresh = False  # no tables can be made
        with server:
            begun = [pool.submit(status_of, server, path) for path in PATHS]
            assert status_of(server, "/healthz")[:2] == (200, b"ok\n")
            answers = [one.result() for one in begun]
            assert [status for status, _, _ in answers] == [503] * len(PATHS)
            assert max(seconds for _, _, seconds in answers) < SOON
            assert b"unavailable" in status_of(server, "/api/v1/teams")[1]
