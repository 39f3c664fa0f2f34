"""Time of requests under gunicorn, relative to an empty response of Django. See bench/README.md.

    .venv/bin/python bench/api.py

On SQLite; with DATABASE_URL on PostgreSQL, in a database that is made for it and dropped.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ROUNDS, TIMES = 15, 60
SMALL, LARGE = 1000, 1_000_000
FILL = """
from django.db import connection
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.events.models import Event
from apps.repos.access import access_to, access_to_owner
from apps.repos.actions import create_repo
from apps.teams.actions import create_team
from apps.threads.actions import create_reply, create_thread
from apps.threads.models import Thread
UUID = {"sqlite": "lower(hex(randomblob(16)))", "postgresql": "gen_random_uuid()"}

def multiply(row, times, **changed):
    model = type(row)
    columns = [f.column for f in model._meta.concrete_fields if f.name != "id"]
    names = ", ".join(columns)
    values = ", ".join(changed.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) "
            f"INSERT INTO {model._meta.db_table} ({names}) "
            f"SELECT {values} FROM {model._meta.db_table}, n WHERE id = %s",
            [times, row.pk],
        )

alice = User.objects.get(username="alice")
for slug, times in (("small", SMALL), ("large", LARGE)):
    team = create_team(principal=Principal(alice), name=slug, slug=slug)
    space = access_to_owner(Principal(alice), team)
    for number in range(50):
        repo = create_repo(access=space, name="R", slug=f"r{number}")
    access = access_to(Principal(alice), repo)
    thread = create_thread(access=access, title="T", body="Why?", kind="question")
    for number in range(20):
        create_reply(access=access, thread=thread, kind="answer", body="Because.")
    multiply(thread, times, uuid=UUID[connection.vendor], number="number + i")
    repo.last_number += times
    repo.save()
    multiply(Event.objects.get(thread_id=thread.pk, kind="thread-created"), times)
with connection.cursor() as cursor:
    cursor.execute("ANALYZE")
"""

Call = Callable[[], int]


class Site:
    """An address with one connection, and a client with little work of its own."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.token = port, token
        self.connection = socket.create_connection(("127.0.0.1", port))

    def ask(
        self, path: str, make: Callable[[], bytes] = bytes, header: Callable[[], str] = str
    ) -> Call:
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


@contextmanager
def bare() -> Iterator[Site]:
    """Django with one view and no middleware, under the same gunicorn."""
    from tests.server import GUNICORN

    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = [*GUNICORN["gunicorn"][:-1], "--bind", f"fd://{listening.fileno()}"]
        options += ["--log-level", "warning"]
        command = [sys.executable, "-m", "gunicorn", "--no-control-socket", *options]
        process = subprocess.Popen(
            [*command, "bench.bare:application"], cwd=ROOT, pass_fds=[listening.fileno()]
        )
        try:
            yield Site(listening.getsockname()[1])
        finally:
            process.terminate()
            process.wait(20)


def compare(ways: dict[str, tuple[Call, int]]) -> dict[str, float]:
    """Seconds for one request: the median of all turns, which the ways take alternately."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, (call, status) in ways.items():
            begin = time.perf_counter()
            for _ in range(TIMES):
                if (found := call()) != status:
                    sys.exit(f"{name}: {found}")
            if number:  # the first round warms up
                took[name].append((time.perf_counter() - begin) / TIMES)
    return {name: statistics.median(turns) for name, turns in took.items()}


def table(found: dict[str, float]) -> None:
    base = found["bare"]
    for name, seconds in found.items():
        print(f"  {name:44} {seconds * 1e6:8.0f} µs   {100 * base / seconds:5.1f} % of bare")


def ways(plain: Site, site: Site) -> dict[str, tuple[Call, int]]:
    number = count(1)

    def fresh() -> bytes:
        return b'{"kind": "question", "title": "T%d", "body": "Why?"}' % next(number)

    def answer() -> bytes:
        return b'{"kind": "answer", "body": "Because of %d."}' % next(number)

    small, large = "/api/v1/teams/small/repos", "/api/v1/teams/large/repos"
    reads = {
        "list of 50 repositories": f"{small}?per_page=50",
        "list of 50 threads of 1,000": f"{small}/r49/threads?per_page=50",
        "list of 50 threads of 1,000,000": f"{large}/r49/threads?per_page=50",
        "list of 50 events of 1,000": "/api/v1/events?scope=repo:teams/small/r49&per_page=50",
        "list of 50 events of 1,000,000": "/api/v1/events?scope=repo:teams/large/r49&per_page=50",
        "oneself": "/api/v1/users/self",
        "a repository": f"{small}/r49",
        "a thread with 20 replies": f"{small}/r49/threads/1",
        "a reply": f"{small}/r49/threads/1/replies/1",
    }
    return {
        "bare": (plain.ask("/"), 200),
        **{name: (site.ask(path), 200) for name, path in reads.items()},
        "a new thread": (site.ask(f"{small}/r0/threads", fresh), 201),
        "a new reply": (site.ask(f"{large}/r49/threads/1/replies", answer), 201),
    }


def main() -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    import django

    django.setup()
    from tests.server import Server

    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        server = running.enter_context(Server(Path(name), "gunicorn"))
        token = server.token("alice")
        server.run(f"SMALL, LARGE = {SMALL}, {LARGE}\n{FILL}")
        port = int(server.url.rpartition(":")[2])
        plain = running.enter_context(bare())
        table(compare(ways(plain, Site(port, token))))


if __name__ == "__main__":
    main()
