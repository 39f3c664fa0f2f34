"""Time of an event to the last of many subscribers, compared with nginx's nchan.

    [DATABASE_URL=postgres://…] .venv/bin/python bench/stream.py [--deployed] [subscribers …]

The server is that of `bin/serve`; with `--deployed` it is one `asgi` worker, on PostgreSQL. Debian:
nginx-light, libnginx-mod-nchan. See bench/README.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import select
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from git_http import process, wait_for

from bench.load import processes, proportional_memory
from tests.server import Server

ROUNDS, EACH = 15, 20
SUBSCRIBERS = (1000, 5000, 10000)
PATIENCE = 60.0
NGINX = """
load_module /usr/lib/nginx/modules/ngx_nchan_module.so;
daemon off;
user {user};
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections {files}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_temp_path {folder}/proxy;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location /pub {{ nchan_publisher; nchan_channel_id one; }}
        location /sub {{ nchan_subscriber eventsource; nchan_channel_id one; }}
    }}
}}
"""
PEOPLE = """
from apps.accounts.models import User
from apps.accounts.actions import create_token, create_user
for number in range({count}):
    user = create_user(principal=None, username=f"reader{{number}}")
    print(create_token(principal=None, owner=user, name="bench")[1])
"""


class Readers:
    """Many connections, read by one simple loop."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.open: dict[int, socket.socket] = {}

    def join(self, port: int, requests: list[bytes]) -> None:
        """Subscribe with all of these, a hundred at a time, and wait until all have an answer."""
        for begin in range(0, len(requests), 100):
            for request in requests[begin : begin + 100]:
                one = socket.create_connection(("127.0.0.1", port))
                one.sendall(request)
                self.open[one.fileno()] = one
                self.poll.register(one.fileno(), select.EPOLLIN)
            self.wait(b"\r\n\r\n", len(requests[begin : begin + 100]))

    def wait(self, mark: bytes, count: int) -> None:
        """Read until this many have received this."""
        ends = time.monotonic() + PATIENCE
        while count > 0:
            for number, _ in self.poll.poll(1, 4096):
                piece = self.open[number].recv(65536)
                count -= mark in piece
                if not piece or time.monotonic() > ends:
                    sys.exit("a stream was closed, or nothing came")

    def close(self) -> None:
        for one in self.open.values():
            one.close()
        self.poll.close()


def memory_of(pid: int) -> float:
    """KiB of this process and its descendants."""
    return sum(map(proportional_memory, processes(pid))) * 1024


class Guildhall:
    """A repository with the events of everybody; a new thread is the event."""

    name = "Guildhall"

    def __init__(self, folder: Path, running: ExitStack, largest: int, *, deployed: bool) -> None:
        self.api = running.enter_context(Server(folder, "gunicorn" if deployed else "serve"))
        self.streams = self.api
        if deployed:
            self.streams = running.enter_context(Server(folder, "gunicorn-asgi", beside=self.api))
        self.port = int(self.streams.url.rpartition(":")[2])
        self.alice = self.api.api("alice")
        self.alice.post("/teams", name="A", slug="a").gives(201)
        made = {"name": "R", "slug": "r", "visibility": "public"}
        self.alice.post("/teams/a/repos", **made).gives(201)
        people = self.api.run(PEOPLE.format(count=-(-largest // EACH)))
        self.tokens = people.split()

    def memory(self) -> float:
        """KiB, of all processes."""
        return memory_of(self.streams.process.pid)

    def requests(self, count: int) -> list[bytes]:
        return [
            b"GET /api/v1/tail-events?scope=repo:teams/a/r HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Authorization: Bearer %b\r\n\r\n" % self.tokens[number // EACH].encode()
            for number in range(count)
        ]

    def publish(self) -> None:
        made = {"title": "T", "body": "Why?", "kind": "question"}
        self.alice.post("/teams/a/repos/r/threads", **made).gives(201)


class Nchan:
    """One channel, and a message as large as one of our frames."""

    name = "nchan"

    def __init__(self, folder: Path, running: ExitStack) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        folder.mkdir()
        words = {"folder": folder, "port": self.port, "files": files}
        user = os.environ.get("USER", "root")
        (folder / "nginx.conf").write_text(NGINX.format(user=user, **words))
        self.pid = running.enter_context(process("nginx", "-p", f"{folder}", "-c", "nginx.conf"))
        wait_for(self.port)
        self.message = b"x"

    def memory(self) -> float:
        return memory_of(self.pid)

    def requests(self, count: int) -> list[bytes]:
        return [b"GET /sub HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"] * count

    def publish(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/pub", self.message)
        if connection.getresponse().status not in (201, 202):
            sys.exit("nchan takes no message")
        connection.close()


def measure(site, count: int) -> tuple[float, float]:
    """Seconds from publishing to the last reader: the median, and the best."""
    readers = Readers()
    try:
        before = site.memory()
        readers.join(site.port, site.requests(count))
        print(f"  {site.name}: {(site.memory() - before) / count:.1f} KiB a stream", flush=True)
        took = []
        for number in range(ROUNDS + 1):
            begin = time.perf_counter()
            site.publish()
            readers.wait(b"\ndata:", count)
            if number:
                took.append(time.perf_counter() - begin)
        return statistics.median(took), min(took)
    finally:
        readers.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", metavar="SUBSCRIBERS", nargs="*", type=int, default=SUBSCRIBERS)
    parser.add_argument("--deployed", action="store_true", help="one `asgi` worker of gunicorn")
    given = parser.parse_args()
    counts = given.counts
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        theirs = Nchan(Path(name, "nginx"), running)
        ours = Guildhall(Path(name), running, max(counts), deployed=given.deployed)
        ours.publish()
        found = ours.alice.get("/events?scope=repo:teams/a/r").json["results"]
        theirs.message = json.dumps(found[0]).encode()
        for count in counts:
            pairs = [measure(site, count) for site in (theirs, ours)]
            (base, _), (found, _) = pairs
            words = ", ".join(f"{m * 1000:.0f} ms (best {b * 1000:.0f})" for m, b in pairs)
            print(f"  {count:6} subscribers: {words}   {found / base:.2f}", flush=True)


if __name__ == "__main__":
    main()
