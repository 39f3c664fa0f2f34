"""The embedded server, with applications that stock daphne cannot serve well."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server import PATIENCE, ROOT

MIB = 1024 * 1024
SENT = 40
"""MiB: twice what may stay in memory."""
APPLICATION = '''
from config.embedded import Server

MIB = 1024 * 1024
START = {"type": "http.response.start", "status": 200, "headers": []}

async def upload(receive, send):
    """Say how many bytes came, in the largest how large pieces."""
    size = largest = 0
    more = True
    while more:
        message = await receive()
        size, largest = size + len(message["body"]), max(largest, len(message["body"]))
        more = message["more_body"]
    await send(START)
    await send({"type": "http.response.body", "body": b"%d %d" % (size, largest)})

gone = 0

async def download(receive, send):
    await receive()
    await send(START)
    for _ in range(60):
        await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    global gone
    gone += 1

async def finished(receive, send):
    await send(START)
    await send({"type": "http.response.body", "body": b"%d" % gone})

async def crash(receive, send):
    raise RuntimeError("a defect")

async def crash_late(receive, send):
    await send(START)
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    raise RuntimeError("a late defect")

async def silent(receive, send):
    pass

async def application(scope, receive, send):
    name = scope["path"].rpartition("/")[2].replace("git-receive-pack", "upload")
    await globals()[name](receive, send)

server = Server.at(application, "127.0.0.1", 0)
print("at", server.listening_addresses[0][1], flush=True)
server.run()
'''


class Embedded:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline().split()[1])

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            yield connection

    def ask(self, raw: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to these bytes, after which the server has hung up."""
        with self.connection() as connection:
            connection.sendall(raw)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"chunked" in head:
            body = b"".join(body.split(b"\r\n")[1::2])
        return int(head.split()[1]) if head else 0, body

    @property
    def memory(self) -> int:
        """MiB in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) // 1024


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A process with the applications above, each at the path that ends in its name."""
    folder = tmp_path_factory.mktemp("embedded")
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    environment["DJANGO_SETTINGS_MODULE"] = "config.settings"
    with subprocess.Popen(
        [sys.executable, "-c", APPLICATION],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        yield Embedded(process)
        process.kill()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def upload(embedded: Embedded, path: str) -> bytes:
    """What the application says that it got of so much sent to this path."""
    head = f"POST {path} HTTP/1.0\r\nContent-Length: {SENT * MIB}\r\n"
    with embedded.connection() as connection:
        connection.sendall(
            f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode()
        )
        for _ in range(SENT):
            connection.sendall(bytes(MIB))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer.rpartition(b"\r\n\r\n")[2]


def test_a_large_push_comes_in_pieces_and_takes_no_memory(embedded):
    before = embedded.memory
    assert upload(embedded, "/git-receive-pack") == b"%d 65536" % (SENT * MIB)
    assert embedded.memory < before + 20


def test_of_what_is_no_push_only_a_little_is_kept(embedded):
    assert upload(embedded, "/upload?x=/git-receive-pack") == b"%d 65536" % (16 * MIB + 1)


def test_a_large_answer_waits_for_its_reader(embedded):
    before = embedded.memory
    with embedded.connection() as connection:
        connection.sendall(get("/download"))
        begun = connection.recv(1024)
        assert embedded.ask(get("/upload"))[0] == 200
        assert embedded.memory < before + 20
        size = len(begun)
        while piece := connection.recv(1024 * 1024):
            size += len(piece)
    assert size > 60 * MIB


def test_a_reader_that_leaves_in_the_middle_is_let_go(embedded):
    with embedded.connection() as connection:
        connection.sendall(get("/download"))
        connection.recv(1024)
    # Each answer gives the server time to see who has left.
    assert any(embedded.ask(get("/finished")) == (200, b"2") for _ in range(500))


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/x?\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/x\r\nHost: localhost\r\n\r\n",
        b"G\xc3T /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nB@d: 1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nX: a\x00b\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_what_never_reaches_the_application_is_refused_with_errorbody(embedded, raw):
    status, body = embedded.ask(raw)
    assert status == 400
    assert b'"error":"malformed_request"' in body


def test_a_defect_is_answered_and_never_leaves_a_client_waiting(embedded):
    status, body = embedded.ask(get("/api/crash"))
    assert status == 500 and b'"error":"internal_error"' in body
    assert embedded.ask(get("/crash"))[0] == 500
    assert embedded.ask(get("/crash_late")) == (200, b"begun")
    assert embedded.ask(get("/silent")) == (0, b"")


def test_an_upgrade_is_not_taken(embedded):
    upgrade = b"Upgrade: websocket\r\nConnection: close\r\n"
    assert (
        embedded.ask(b"GET /upload HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")[0] == 200
    )
