"""The settings, the server, the client and the timing of benchmarks with a real server."""

from __future__ import annotations

import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import django

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from tests.server import Server  # noqa: E402 - needs the path and the settings

Call = Callable[[], object]
Ways = Mapping[Any, Callable[[int], Call]]
"""The compared calls by name, each made by a function of the number of the round."""
Request = Callable[[], int]
"""Sends a request; returns the status of its answer."""


@contextmanager
def serving(kind: str = "gunicorn") -> Iterator[tuple[Server, Path]]:
    """A server without any data, and a temporary folder in which its data is too."""
    with tempfile.TemporaryDirectory() as name, Server(Path(name), kind) as server:
        yield server, Path(name)


def take_turns(ways: Ways, rounds: int, warm_up: int = 1) -> dict[str, list[float]]:
    """Seconds of each call. The order changes with each round; the first rounds do not count."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + warm_up):
        for name in reversed(ways) if number % 2 else ways:
            run = ways[name](number)
            begin = time.perf_counter()
            run()
            if number >= warm_up:
                took[name].append(time.perf_counter() - begin)
    return took


def compare(
    ways: Mapping[str, tuple[Request, int]], rounds: int = 15, times: int = 60
) -> dict[str, float]:
    """Seconds for one request with this status: the median of the rounds, each of many requests."""

    def repeated(name: str) -> Call:
        send, expected = ways[name]

        def run() -> None:
            for _ in range(times):
                if (status := send()) != expected:
                    sys.exit(f"{name}: {status}")

        return run

    took = take_turns({name: lambda _, name=name: repeated(name) for name in ways}, rounds)
    return {name: statistics.median(seconds) / times for name, seconds in took.items()}


class Site:
    """An address with one connection, and a client with little work of its own."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.token = port, token
        self.connection = socket.create_connection(("127.0.0.1", port))

    def ask(
        self, path: str, make: Callable[[], bytes] = bytes, header: Callable[[], str] = str
    ) -> Request:
        """A call that reads the path, or posts generated data there; returns the status."""

        def call() -> int:
            body = make()
            lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", "Host: 127.0.0.1"]
            lines += [f"Authorization: Bearer {self.token}"] if self.token else []
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
            lines += [more] if (more := header()) else []
            return self._exchange("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

        return call

    def _exchange(self, request: bytes) -> int:
        answer = b""
        with suppress(ConnectionError):
            self.connection.sendall(request)
            # Else a response in two parts waits 40 ms for the acknowledgement of the first.
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            answer = self.connection.recv(1 << 20)
        if not answer:  # gunicorn closes idle connections
            self.connection = socket.create_connection(("127.0.0.1", self.port))
            return self._exchange(request)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        got = len(body)
        while got < length:
            got += len(self.connection.recv(1 << 20))
        return int(head[9:12])


def alices(server: Server) -> Site:
    """A client of alice's."""
    return Site(int(server.url.rpartition(":")[2]), server.token("alice"))
