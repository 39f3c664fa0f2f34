"""Webhooks: events a second to fast receivers, and the cost of many dead and slow ones.

    [DATABASE_URL=postgres://…] .venv/bin/python bench/webhooks.py

See bench/README.md. The receivers are one process of their own, at addresses of this machine.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import orjson
from measuring import ROOT  # sets the path and Django up

from tests import server as servers
from tests.scenarios.killed_webhooks import SETTINGS
from tests.server import Server
from tests.tail import opened
from tests.waiting import eventually

EVENTS = 1000
"""Events of each measurement of the rate."""
HOOKS, DEAD = 1000, 300
POSTS, ROUNDS = 60, 2
"""Requests of a round, and rounds of each variant."""
PORT = 18999
servers.PATIENCE = 600.0  # this machine may be busy
STATES = ("none", "dead", "fresh")
"""The dead webhooks are not active; are in back-off for half an hour; are sent to in the round."""
REPOS = 50
NO_LIMITS = "from apps.site.models import RateLimit; RateLimit.objects.update(is_enabled=False)"
MAKE = """
import datetime as dt, random
from django.utils import timezone
from apps.accounts.models import User
from apps.events.models import Event
from apps.repos.models import Repo
from apps.webhooks.models import Webhook
repos = list(Repo.objects.order_by("pk"))
alice, cursor = User.objects.get(username="alice"), Event.objects.newest_id()
Webhook.objects.all().delete()
def make(repo, url, state):
    hook = Webhook(
        repo=repos[repo], url=url, created_by=alice, cursor_event_id=cursor,
        is_active=state != "none",
    )
    if state == "dead":
        hook.consecutive_failures = 3
        hook.next_attempt_at = timezone.now() + dt.timedelta(minutes=30 * random.random())
    return hook

Webhook.objects.bulk_create([make(*row) for row in {rows!r}])
"""
RECORD = """
from django.db import transaction
from apps.events.kinds import Kind
from apps.events.record import Change, record_all
from apps.repos.models import Repo
repos = list(Repo.objects.order_by("pk"))
with transaction.atomic():
    record_all([Change(Kind.REPO_UPDATED, None, repos[n], {{"changed": []}}) for n in {repos!r}])
"""


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests at once; those to /slow never; and count the others."""
    while head := await read_head(reader):
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        if b" /slow" in head.split(b"\r\n")[0]:
            await asyncio.sleep(3600)
        if b" /count" in head.split(b"\r\n")[0]:
            sys.stdout.write(f"{time.time()}\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    writer.close()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def serve() -> None:
    server = await asyncio.start_server(receive, None, PORT, backlog=1000)
    async with server:
        await server.serve_forever()


class Receivers:
    """The process of the receivers, and the times at which /count has received."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "times"
        self.process = subprocess.Popen(
            [sys.executable, "-u", __file__, "--receive"],
            cwd=ROOT / "bench",
            stdout=self.file.open("w"),
        )

    def times(self) -> list[float]:
        return [float(line) for line in self.file.read_text().splitlines()]

    def wait(self, count: int, within: float = 300) -> list[float]:
        eventually(lambda: len(self.times()) >= count, within, pause_for=0.1)
        return self.times()


def url(number: int, path: str = "count", port: int = PORT) -> str:
    """An address of this machine of its own for each number."""
    return f"http://127.1.{number // 250}.{number % 250 + 1}:{port}/{path}"


@contextmanager
def working(folder: Path) -> Iterator[tuple[Server, Receivers]]:
    """`bin/serve` with one process, in which the worker is too, and repositories."""
    receivers = Receivers(folder)
    try:
        with Server(folder, "serve", WEB_CONCURRENCY="1", **SETTINGS) as server:
            server.run(NO_LIMITS)
            alice = server.api("alice")
            for number in range(REPOS):
                slug = f"r{number}"
                alice.post("/users/alice/repos", name=slug, slug=slug).gives(201)
            yield server, receivers
    finally:
        receivers.process.kill()
        receivers.process.wait()


def rate(server: Server, receivers: Receivers, hooks: int) -> float:
    """Events a second that arrive from a backlog of so many webhooks of different receivers."""
    server.run(MAKE.format(rows=[(n, url(n), "fresh") for n in range(hooks)]))
    before = len(receivers.times())
    server.run(RECORD.format(repos=[n for n in range(hooks) for _ in range(EVENTS // hooks)]))
    times = receivers.wait(before + EVENTS)[before:]
    return (EVENTS - 1) / (times[-1] - times[0])


def rows(state: str) -> list[tuple[int, str, str]]:
    """A counted webhook, idle ones, and dead ones in this state: a third refuses, the others never
    answer.
    """
    dead = [(1 + n % 15, url(n, "slow") if n % 3 else url(n, port=9), state) for n in range(DEAD)]
    idle = [(20 + n % 30, url(n, "idle"), "fresh") for n in range(HOOKS - DEAD - 1)]
    return [(0, url(999), "fresh"), *dead, *idle]


def round_of(server: Server, receivers: Receivers, state: str) -> dict[str, list[float]]:
    """Milliseconds of each request, and from its answer to the stream and to the receiver."""
    server.run(MAKE.format(rows=rows(state)))
    before, answered, streamed, writes = len(receivers.times()), [], [], []
    query = "scope=repo:users/alice/r0&kind=thread-created"
    with opened(server, "alice", query) as stream, closing(server.connect()) as connection:
        server.run(RECORD.format(repos=[*range(1, 16)]))
        for number in range(POSTS):
            begun = time.time()
            post(connection, server, number)
            answered.append(time.time())
            writes.append(answered[-1] - begun)
            stream.next()
            streamed.append(time.time())
            time.sleep(0.1)
    arrived = receivers.wait(before + POSTS)[before:]
    return {
        "write": writes,
        "stream": [there - here for there, here in zip(streamed, answered, strict=True)],
        "other webhook": [there - here for there, here in zip(arrived, answered, strict=True)],
    }


def post(connection: HTTPConnection, server: Server, number: int) -> None:
    body = orjson.dumps({"title": f"Thread {number}", "body": "", "kind": "issue"})
    headers = {**server.api("alice").headers, "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/users/alice/repos/r0/threads", body, headers)
    answer = connection.getresponse()
    if answer.status != 201:
        raise ValueError(answer.read())
    answer.read()


def median(values: list[float]) -> float:
    return statistics.median(values) * 1000


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as name, working(Path(name)) as (server, receivers):
        for hooks in (1, 20):
            print(f"{hooks} webhooks: {rate(server, receivers, hooks):,.0f} events a second")
        measured: dict[str, dict[str, list[float]]] = {state: {} for state in STATES}
        for _ in range(ROUNDS):
            for state in STATES:
                for what, values in round_of(server, receivers, state).items():
                    measured[state].setdefault(what, []).extend(values)
        for state, figures in measured.items():
            for what, values in figures.items():
                ratio = median(values) / median(measured["none"][what])
                line = f"{state}, {what}: {median(values):.1f} ms, 95 %: {p95(values):.1f}"
                print(f"{line}, ratio {ratio:.2f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--receive"]:
        asyncio.run(serve())
    else:
        main()
