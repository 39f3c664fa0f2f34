"""The hostile cases over the wire, to the real servers: what a test client cannot send, too."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from tests.core.hostile import BODIES, CREDENTIALS, FINE, HEADERS, LONG, MIB, PATHS, QUERIES, Knock
from tests.server import PATIENCE, Remote, Server

WORLD = """
from pathlib import Path
from tests.world import World
world = World(Path())
print("token", world.make.tokens[world.people["sam"].pk])
"""
KINDS = ["daphne", "gunicorn"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """daphne and gunicorn on one database, with the world in it."""
    folder = tmp_path_factory.mktemp("server")
    with Server(folder) as daphne, Server(folder, "gunicorn", beside=daphne) as gunicorn:
        token = next(line.split()[1] for line in daphne.run(WORLD).splitlines() if line[:5] == "token")
        daphne.tokens["sam"] = gunicorn.tokens["sam"] = token
        yield {"daphne": daphne, "gunicorn": gunicorn}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: dict[str, Server]) -> Server:
    return servers[request.param]


def send(connection: http.client.HTTPConnection, server: Server, knock: Knock) -> tuple[int, bytes]:
    sent = {"Authorization": f"Bearer {server.tokens['sam']}", **knock.headers}
    if knock.content_type is not None:
        sent["Content-Type"] = knock.content_type
    connection.request(knock.method, "/api/v1" + knock.path, knock.body, sent)
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize("knocks", [BODIES, QUERIES, PATHS, CREDENTIALS, HEADERS, LONG])
def test_what_is_hostile_is_refused_over_the_wire(server, knocks):
    connection = server.connect()
    wrong = []
    for knock in knocks:
        status, body = send(connection, server, knock)
        if status != knock.status or f'"error":"{knock.code}"'.encode() not in body:
            wrong.append((str(knock), status, body[:200]))
    connection.close()
    assert not wrong
