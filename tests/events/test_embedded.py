"""The server of `bin/serve` itself, with small ASGI applications in place of Guildhall."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import memory
from tests.server import PATIENCE, ROOT
from tests.waiting import eventually

pytestmark = pytest.mark.once

MIB = 1024 * 1024
SENT = 40
"""MiB: twice the memory that the server may use."""
APPLICATION = '''
from config.server import Server, listen

MIB = 1024 * 1024
START = {"type": "http.response.start", "status": 200, "headers": []}

async def upload(receive, send):
    """Say how many bytes came."""
    size = 0
    more = True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    await send(START)
    await send({"type": "http.response.body", "body": b"%d" % size})

gone = 0

async def download(receive, send):
    await receive()
    await send(START)
    try:
        for _ in range(60):
            await send({"type": "http.response.body", "body": bytes(MIB), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
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
    assert scope["type"] == "http"
    await globals()[scope["path"].rpartition("/")[2]](receive, send)

listening = listen("127.0.0.1", 0)
print("at", listening.getsockname()[1], flush=True)
Server(listening, 1, lambda: application).run()
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
        """Status and body of the response to these bytes, read until the server closes."""
        with self.connection() as connection:
            connection.sendall(raw)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            body = b"".join(body.split(b"\r\n")[1::2])
        return int(head.split()[1]) if head else 0, body

    @property
    def worker(self) -> int:
        """The id of the worker process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(eventually(children.read_text).split()[0])

    @property
    def memory(self) -> int:
        """MiB in use by the worker process."""
        return memory(self.worker) // MIB


@contextmanager
def running(folder: Path) -> Iterator[Embedded]:
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
        process.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server with the applications above, each at the path that ends in its name."""
    with running(tmp_path_factory.mktemp("embedded")) as running_server:
        yield running_server


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def test_a_large_body_comes_in_pieces_and_takes_no_memory(embedded):
    assert embedded.ask(get("/upload")) == (200, b"0")
    before = embedded.memory
    head = f"POST /upload HTTP/1.0\r\nContent-Length: {SENT * MIB}\r\n"
    with embedded.connection() as connection:
        connection.sendall(
            f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode()
        )
        for _ in range(SENT):
            connection.sendall(bytes(MIB))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.rpartition(b"\r\n\r\n")[2] == b"%d" % (SENT * MIB)
    assert embedded.memory < before + 20


def test_a_large_answer_waits_for_its_reader(embedded):
    assert embedded.ask(get("/upload")) == (200, b"0")
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
    ended = int(embedded.ask(get("/finished"))[1])
    with embedded.connection() as connection:
        connection.sendall(get("/download"))
        connection.recv(1024)
    eventually(lambda: embedded.ask(get("/finished")) == (200, b"%d" % (ended + 1)))


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/x\r\nHost: localhost\r\n\r\n",
        b"G\xc3T /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nB@d: 1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/x HTTP/1.1\r\nX: a\x00b\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/x?\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /api/\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
def test_what_is_no_request_never_reaches_the_application(embedded, raw):
    """Such a request has no path, so that its answer is no ErrorBody."""
    assert embedded.ask(raw)[0] == 400


def test_a_defect_is_answered_and_never_leaves_a_client_waiting(embedded):
    assert embedded.ask(get("/crash"))[0] == 500
    assert embedded.ask(get("/crash_late")) == (200, b"begun")
    assert embedded.ask(get("/silent"))[0] == 500


def test_an_upgrade_is_not_taken(embedded):
    upgrade = b"Upgrade: websocket\r\nConnection: close\r\n"
    assert (
        embedded.ask(b"GET /upload HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")[0] == 200
    )


def test_a_worker_that_dies_is_replaced(embedded):
    died = embedded.worker
    os.kill(died, signal.SIGKILL)
    assert embedded.ask(get("/upload")) == (200, b"0")
    assert embedded.worker != died
