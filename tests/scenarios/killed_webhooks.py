"""A server and workers that are killed while a receiver of webhooks fails at random.

`run` is a test of half a minute (test_killed_webhooks.py) and a benchmark of any length
(bench/webhooks_kill.py).
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg

from tests.server import ROOT, Server
from tests.waiting import eventually
from tests.webhooks.receivers import Answer, Received, Receiver, first_arrivals

HOOKS = 8
"""Webhooks with a receiver each: those whose worker was killed wait for the end of a lease."""
NewServer = Callable[..., Server]
FORWARD = """
    UPDATE webhooks_webhook SET next_attempt_at = created_at, consecutive_failures = 1
    WHERE consecutive_failures > 0
"""
"""Lets time pass for webhooks that wait for their next attempt."""
OF_TEAM = "SELECT id FROM events_event WHERE team_id = {} AND id > {} ORDER BY id"
SETTINGS = {"WEBHOOK_ALLOW_HTTP": "true", "WEBHOOK_ALLOWED_NETS": "127.0.0.0/8"}
ERRORS = (OSError, HTTPException, ValueError, AssertionError)
"""Errors of a client whose server is killed."""


@dataclass
class Site:
    """A server with workers, and its database beside it."""

    server: Server
    random: Random
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=lambda: {"server": 0, "worker": 0})

    def rows(self, statement: str) -> list[Any]:
        """The rows of a statement; none of one that changes rows."""
        if self.server.database:
            with psycopg.connect(self.server.database, autocommit=True) as server:
                cursor = server.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.server.file, timeout=30)) as file, file:
            return file.execute(statement).fetchall()

    def start_worker(self) -> None:
        self.workers.append(
            subprocess.Popen(
                [self.server.python, "manage.py", "run_jobs"],
                cwd=ROOT,
                env=self.server.environment,
                stdout=subprocess.DEVNULL,
            )
        )

    def end_worker(self, how: signal.Signals = signal.SIGKILL) -> None:
        worker = self.workers.pop(0)
        worker.send_signal(how)
        worker.wait()

    def kill_something(self) -> None:
        """Kill a worker or the server without warning, and start it again."""
        if self.random.random() < 0.6:
            self.kills["worker"] += 1
            self.end_worker()
            self.start_worker()
        else:
            self.kills["server"] += 1
            self.server.kill()
            self.server.start()


@dataclass
class Report:
    """The figures of a run."""

    events: int
    requests: int
    failed: int
    repeated: int
    """Requests about an event that their receiver had accepted before."""
    kills: dict[str, int]


class Unsteady:
    """Answers 500 or breaks the connection for half of the requests, until it heals."""

    def __init__(self, random: Random) -> None:
        self.random, self.is_healed = random, False

    def __call__(self, request: Received) -> Answer:
        if self.is_healed or self.random.random() < 0.5:
            return 204
        if self.random.random() < 0.2:
            raise ConnectionAbortedError
        return 500


def run(folder: Path, seconds: float, seed: int, new_server: NewServer = Server) -> Report:
    """Write events while server and worker are killed, then compare the log with the arrivals."""
    random = Random(seed)  # noqa: S311 - no secret
    unsteady = Unsteady(random)
    environment = {**SETTINGS, "WEB_CONCURRENCY": "2"}
    with ExitStack() as stack, new_server(folder, "serve", **environment) as server:
        hosts = [f"127.0.0.{number}" for number in range(1, HOOKS + 1)]
        receivers = [stack.enter_context(Receiver(unsteady, host)) for host in hosts]
        site = Site(server, random)
        secrets, thread = prepare(server, [receiver.url for receiver in receivers])
        [[team, cursor], *_] = site.rows("SELECT team_id, cursor_event_id FROM webhooks_webhook")
        expected = OF_TEAM.format(team, cursor)
        site.start_worker()
        try:
            work(site, thread, seconds)
            unsteady.is_healed = True
            for receiver in receivers:
                wait_for_all(site, receiver, expected)
        finally:
            site.end_worker()
        return check(site, receivers, secrets, expected)


def prepare(server: Server, urls: list[str]) -> tuple[list[str], str]:
    """A team with webhooks and a thread; the secrets, and the path of the thread's replies."""
    alice, slug = server.api("alice"), f"t{uuid4().hex[:10]}"
    alice.post("/teams", name="Team", slug=slug).gives(201)
    alice.post(f"/teams/{slug}/repos", name="Api", slug="api").gives(201)
    threads = f"/teams/{slug}/repos/api/threads"
    hooks = [alice.post(f"/teams/{slug}/webhooks", url=url).gives(201) for url in urls]
    thread = alice.post(threads, title="Slow", body="", kind="issue").gives(201)
    return [hook["secret"] for hook in hooks], f"{threads}/{thread['number']}/replies"


def work(site: Site, replies: str, seconds: float) -> None:
    """Write events from two threads, and kill a process now and then."""
    ended = threading.Event()
    writers = [threading.Thread(target=write, args=[site, replies, ended]) for _ in range(2)]
    writers.append(threading.Thread(target=pass_time, args=[site, ended]))
    for writer in writers:
        writer.start()
    try:
        until = monotonic() + seconds
        while monotonic() < until:
            ended.wait(site.random.uniform(0.5, 6))
            site.kill_something()
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def write(site: Site, replies: str, ended: threading.Event) -> None:
    while not ended.wait(0.05):
        with suppress(*ERRORS):  # its server is killed
            site.server.api("alice").post(replies, body="x", kind="comment")


def pass_time(site: Site, ended: threading.Event) -> None:
    while not ended.wait(0.5):
        with suppress(sqlite3.OperationalError, psycopg.Error):  # another has the lock
            site.rows(FORWARD)


def wait_for_all(site: Site, receiver: Receiver, expected: str) -> None:
    """Wait as long as events arrive: after failures, a webhook sends at most ten a second."""

    def has_all() -> bool:
        with suppress(sqlite3.OperationalError, psycopg.Error):
            site.rows(FORWARD)
        return {row[0] for row in site.rows(expected)} <= set(receiver.accepted)

    def goes_on(before: int) -> bool:
        return len(receiver.accepted) > before or has_all()

    while not has_all():
        eventually(partial(goes_on, len(receiver.accepted)), within=300, pause_for=0.5)


def check(site: Site, receivers: list[Receiver], secrets: list[str], expected: str) -> Report:
    """Every event has arrived, the first arrivals in order, each with a valid signature."""
    ids, kills = [row[0] for row in site.rows(expected)], sum(site.kills.values())
    report = Report(len(ids), 0, 0, 0, site.kills)
    for receiver, secret in zip(receivers, secrets, strict=True):
        assert first_arrivals(receiver.ids) == first_arrivals(receiver.accepted) == ids
        for request in receiver.requests:
            request.verify_at_any_time(secret)
        repeated = len(receiver.accepted) - len(ids)
        assert repeated <= kills, "an event came twice without a kill"
        report.requests += len(receiver.requests)
        report.failed += len(receiver.requests) - len(receiver.accepted)
        report.repeated += repeated
    return report
