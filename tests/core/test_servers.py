"""The hostile requests over real servers, also some that a test client cannot send."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import orjson
import psycopg
import pytest

from apps.core.slugs import PREFIX
from tests.core.hostile import FINE, MIB, REFUSALS, OddRequest
from tests.server import PATIENCE, Server

pytestmark = pytest.mark.once

SERVERS_OWN = {"Authorization bearer of a control character"}
"""Requests that gunicorn refuses itself, without ErrorBody."""


@pytest.fixture(scope="module")
def target(server: Server) -> Iterator[Server]:
    """The server with the team of the hostile requests; its log must stay clean."""
    begin, alice = len(server.log), server.api("alice")
    alice.post("/teams", name="Target", slug="target").gives(201)
    alice.post("/teams/target/members", username="vic", role="viewer").gives(201)
    alice.post("/teams/target/repos", name="Private", slug="private").gives(201)
    thread = {"title": "t", "body": "", "kind": "issue"}
    alice.post("/teams/target/repos/private/threads", **thread).gives(201)
    yield server
    assert "Traceback" not in server.log[begin:]


def send(
    server: Server,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] = b"",
    **headers: str | None,
) -> tuple[int, bytes]:
    """Status and body, as staff and with JSON. A body that is not bytes is sent in chunks."""
    usual = {"Authorization": f"Bearer {server.token('sam')}", "Content-Type": "application/json"}
    sent = {name: value for name, value in {**usual, **headers}.items() if value is not None}
    chunked = not isinstance(body, bytes)
    with closing(server.connect()) as connection:
        there = PREFIX + path.replace("acme", "target")
        connection.request(method, there, body, sent, encode_chunked=chunked)
        response = connection.getresponse()
        return response.status, response.read()


def refusal(server: Server, odd: OddRequest) -> str:
    """The problem with the answer to a hostile request, or an empty text."""
    headers = {"Content-Type": odd.content_type, **odd.headers}
    status, body = send(server, odd.method, odd.path, odd.body, **headers)
    expected = f'"error":"{odd.code}"'.encode() if odd.code else b""
    fits = status == odd.status and expected in body
    return "" if fits else f"{odd}: {status} {body[:200]!r}"


@pytest.mark.parametrize("sort", REFUSALS)
def test_what_is_hostile_is_refused_over_the_wire(target, sort):
    sendable = [odd for odd in REFUSALS[sort] if str(odd) not in SERVERS_OWN]
    wrong = [refusal(target, odd) for odd in sendable]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_what_is_merely_odd_is_answered_over_the_wire(target):
    wrong = [refusal(target, odd) for odd in FINE if odd.method == "GET"]
    assert not any(wrong), "\n".join(filter(None, wrong))


def team(server: Server, slug: str) -> bytes:
    return orjson.dumps({"name": "Fresh", "slug": f"{slug}-{server.kind}"})


def test_a_chunked_body_is_read_whole(target):
    body = team(target, "chunked")
    status, answer = send(target, "POST", "/teams", [body[:7], body[7:9], body[9:]])
    assert status == 201, answer
    assert orjson.loads(answer)["slug"] == f"chunked-{target.kind}"


def test_a_chunked_body_is_refused_for_what_any_body_is_refused_for(target):
    path = "/teams/acme/members/vic"
    assert send(target, "POST", "/teams", [b"{"])[0] == 400
    assert send(target, "POST", "/teams", [])[0] == 400
    assert send(target, "POST", "/teams", [team(target, "x")], **{"Content-Type": "a/b"})[0] == 415
    assert send(target, "DELETE", path, [b'{"a"', b": 1}"])[0] == 422
    assert send(target, "PUT", path, [b'{"role": "king"}'])[0] == 422


def test_one_byte_too_many_is_413_also_in_chunks(target):
    padding = b" " * (MIB + 1 - len(team(target, "large")))
    for body in (team(target, "large") + padding, [team(target, "large"), padding]):
        status, answer = send(target, "POST", "/teams", body)
        assert (status, orjson.loads(answer)["error"]) == (413, "payload_too_large")
    fits = team(target, "large") + padding[:-1]
    assert send(target, "POST", "/teams", fits)[0] == 201


def test_head_has_no_body(target):
    for path in ("/teams", "/nothing", "/teams/nobody"):
        status, body = send(target, "HEAD", path)
        assert status == send(target, "GET", path)[0]
        assert body == b""


def test_a_method_that_is_not_routed_is_405(target):
    for method in ("OPTIONS", "PROPFIND", "PATCH"):
        status, body = send(target, method, "/teams")
        assert (status, orjson.loads(body)["error"]) == (405, "method_not_allowed")


def raw(server: Server, text: bytes, *, ends: bool) -> bytes:
    """The first bytes of the answer to these bytes; empty if the server closes the connection."""
    parts = urlsplit(server.url)
    text = text.replace(b"HOST", f"{parts.hostname}:{parts.port}".encode())
    text = text.replace(b"TOKEN", server.token("sam").encode())
    with socket.create_connection((str(parts.hostname), parts.port), PATIENCE) as line:
        with suppress(ConnectionError):  # a server that closes early does not receive all of it
            line.sendall(text)
        if ends:
            line.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            return line.recv(65536)
    return b""


POST = b"""POST /api/v1/teams HTTP/1.1
Host: HOST
Authorization: Bearer TOKEN
Content-Type: application/json
Connection: close
""".replace(b"\n", b"\r\n")
ENDLESS = {"chunks without an end", "a length that is a lie"}
BROKEN = {
    "no HTTP": b"\x16\x03\x01\r\n\r\n",
    "no host": b"GET /api/v1/teams HTTP/1.1\r\n\r\n",
    "HTTP 1.0": b"GET /api/v1/teams HTTP/1.0\r\n\r\n",
    "a raw path": b"GET /api/v1/teams/\xff\xfe HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "an address of another": b"GET http://evil.example/api/v1/teams HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a chunk of no size": POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
    "chunks without an end": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "a length of junk": POST + b"Content-Length: x\r\n\r\n{}",
    "a length below nothing": POST + b"Content-Length: -1\r\n\r\n{}",
    "a length that is a lie": POST + b"Content-Length: 99\r\n\r\n{}",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "an unknown coding": POST + b"Transfer-Encoding: x, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a header without a name": POST + b": x\r\n\r\n",
    "a line of 20,000": b"GET /api/v1/" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a header of 100,000": POST + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    "1,000 headers": POST + b"X: a\r\n" * 1000 + b"\r\n",
}


SMUGGLING = {
    "a length twice": b"Content-Length: 2\r\nContent-Length: 2\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 40\r\n",
    "a list of lengths": b"Content-Length: 2, 2\r\n",
    "length, then chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
    "chunks, then length": b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
    "a folded header": b"X: a\r\n b\r\nContent-Length: 2\r\n",
    "a folded length": b"Content-Length:\r\n 2\r\n",
    "a length on a folded line": b"X: a\r\n\tContent-Length: 40\r\nContent-Length: 2\r\n",
}
HIDDEN = b"{}GET /api/v1/openapi.json HTTP/1.1\r\nHost: HOST\r\n\r\n"


@pytest.mark.parametrize("name", SMUGGLING)
def test_what_two_servers_may_read_differently_is_refused_and_ends_the_connection(target, name):
    """Else a proxy and this server could disagree about the beginning of the next request."""
    head = POST.replace(b"Connection: close\r\n", b"")
    answer = raw(target, head + SMUGGLING[name] + b"\r\n" + HIDDEN, ends=False)
    if answer:
        assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") <= 1 and b"openapi" not in answer


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_request_is_the_clients_fault(target, name):
    """An unknown transfer coding may be a 501, by the standard; a server may also disconnect."""
    answer = raw(target, BROKEN[name], ends=name in ENDLESS)
    if answer:
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500 or (name, status) == ("an unknown coding", 501), answer
    assert send(target, "GET", "/teams")[0] == 200


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO"])
def test_a_header_says_nothing_about_the_address(target, name):
    """gunicorn accepts it from clients on the same machine, such as proxies."""
    assert send(target, "GET", "/teams", b"", **{name: "/api"})[0] == 200


def test_a_connection_lives_on_after_a_refusal(target):
    with closing(target.connect()) as connection:
        for _ in range(3):
            connection.request("POST", PREFIX + "/teams", b"x" * 1000)
            response = connection.getresponse()
            response.read()
            assert response.status == 401


SENT_AT_MOST = 32 * MIB
"""Bytes that a server and two kernels may receive of a refused push: a tenth of it."""


def test_a_large_push_is_refused_before_it_is_sent(target):
    """Also if the client reads the answer only when it cannot send more."""
    parts = urlsplit(target.url)
    with socket.create_connection((str(parts.hostname), parts.port), PATIENCE) as line:
        head = f"POST /teams/target/private.git/git-receive-pack HTTP/1.1\r\nHost: {parts.netloc}"
        line.sendall(f"{head}\r\nContent-Length: {300 * MIB}\r\n\r\n".encode())
        sent = 0
        with suppress(ConnectionError):
            while not select.select([line], [], [], 0)[0]:
                sent += line.send(bytes(MIB))
        assert b" 401 " in line.recv(65536).partition(b"\r\n")[0]
    assert sent < SENT_AT_MOST


@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="PostgreSQL's own")
def test_the_next_request_after_a_restart_of_the_database_is_answered(server):
    """Although the process still has older connections."""
    alice = server.api("alice")
    alice.get("/users/self").gives()
    with psycopg.connect(server.environment["DATABASE_URL"], autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    alice.get("/users/self").gives()
