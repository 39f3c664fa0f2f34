"""`/healthz` and `/readyz`: for any Host header, and with the missing part for staff."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import copy_context
from http.client import HTTPConnection, HTTPResponse
from typing import NamedTuple

import orjson
import pytest
from django.db import connection
from django.utils import timezone

from apps.core.request_ids import CurrentRequest, current
from apps.jobs import worker
from apps.jobs.leases import LEASE
from apps.jobs.models import Heartbeat
from config import readiness
from config.health import Application
from config.logs import RequestId
from tests.server import ROOT, Server
from tests.waiting import eventually

ADDRESS = "10.0.0.5"
FORGET_MIGRATION = """
from django.db import connection
connection.cursor().execute("UPDATE django_migrations SET name = {to!r} WHERE name = {name!r}")
"""

SIGN_IN = """
from django.test import Client
from apps.accounts.models import User
browser = Client()
browser.force_login(User.objects.get(username="sam"))
print(browser.cookies["sessionid"].value)
"""


class Answer(NamedTuple):
    status: int
    text: str


def get(server: Server, path: str, **headers: str) -> Answer:
    """The answer to a request whose Host is an address."""
    with closing(server.connect()) as line:
        return ask(line, "GET", path, Host=ADDRESS, **headers)


def ask(line: HTTPConnection, method: str, path: str, **headers: str) -> Answer:
    line.request(method, path, headers=headers)
    response = line.getresponse()
    return Answer(response.status, response.read().decode())


def public(server: Server) -> Answer:
    return get(server, "/readyz")


def bad_parts(server: Server) -> tuple[int, str, set[str]]:
    """The answer to staff: status, word, and the parts that are not `ok`."""
    response = get(server, "/readyz", Authorization=f"Bearer {server.token('sam')}")
    told = orjson.loads(response.text)
    return response.status, told["status"], {n for n, text in told["parts"].items() if text != "ok"}


@pytest.fixture(scope="module")
def ready(tmp_path_factory, new_server) -> Iterator[Server]:
    """`bin/serve`, which runs its own worker."""
    with new_server(tmp_path_factory.mktemp("health")) as running:
        yield running


@pytest.fixture(params=["serve", pytest.param("gunicorn", marks=pytest.mark.slow)])
def any_kind(request, tmp_path, new_server, ready) -> Iterator[Server]:
    if request.param == "serve":
        yield ready
        return
    with new_server(tmp_path, request.param) as running:
        yield running


def test_healthz_is_200_for_any_host(any_kind):
    assert get(any_kind, "/healthz") == (200, "ok\n")
    assert get(any_kind, "/api/v1/teams").status == 400
    with closing(any_kind.connect()) as line:
        for method, status in (("HEAD", 200), ("POST", 404), ("GET", 200)):
            answer = ask(line, method, "/healthz")
            assert answer.status == status and (method != "HEAD" or answer.text == "")


def test_readyz_is_one_word_for_everybody_and_json_for_staff(ready):
    eventually(lambda: public(ready) == (200, "ready\n"))
    eventually(lambda: bad_parts(ready) == (200, "ready", set()))
    for token in (ready.token("alice"), "wrong"):
        assert "{" not in get(ready, "/readyz", Authorization=f"Bearer {token}").text
    cookie = f"sessionid={ready.run(SIGN_IN).strip()}"
    eventually(lambda: '"status":"ready"' in get(ready, "/readyz", Cookie=cookie).text)
    assert "{" not in get(ready, "/readyz", Cookie="sessionid=wrong").text


@contextmanager
def without_mark(server: Server) -> Iterator[None]:
    mark = server.file.with_name("installation")
    before = mark.read_text()
    mark.write_text("another one\n")
    try:
        yield
    finally:
        mark.write_text(before)


@contextmanager
def without_repositories(server: Server) -> Iterator[None]:
    folder = server.file.with_name("repositories")
    folder.rename(aside := folder.with_name("aside"))
    try:
        yield
    finally:
        aside.rename(folder)


@contextmanager
def without_migration(server: Server) -> Iterator[None]:
    server.run(FORGET_MIGRATION.format(name="0001_heartbeat", to="aside"))
    try:
        yield
    finally:
        server.run(FORGET_MIGRATION.format(name="aside", to="0001_heartbeat"))


@pytest.mark.parametrize(
    ("missing", "part"),
    [
        (without_mark, "installation"),
        (without_repositories, "repositories"),
        (without_migration, "migrations"),
    ],
)
def test_a_missing_part_makes_it_503_until_the_part_is_back(ready, missing, part):
    with missing(ready):
        eventually(lambda: public(ready) == (503, "unready\n"))
        eventually(lambda: bad_parts(ready) == (503, "unready", {part}))
        assert get(ready, "/healthz").status == 200
    eventually(lambda: public(ready) == (200, "ready\n"))


@pytest.mark.slow
def test_without_redis_it_is_degraded_and_ready(tmp_path, new_server):
    with new_server(tmp_path, REDIS_URL="redis://127.0.0.1:1/0") as server:
        eventually(lambda: public(server) == (200, "ready\n"))
        eventually(lambda: bad_parts(server) == (200, "degraded", {"redis"}))


def test_a_full_disk_is_logged_without_the_id_of_the_request_before(db, rf, monkeypatch, caplog):
    monkeypatch.setattr(readiness, "FREE_MIN", 1 << 60)
    monkeypatch.setattr("config.health.readiness", readiness.Readiness())
    caplog.handler.addFilter(RequestId())

    def answer() -> None:
        current.set(CurrentRequest("before"))
        assert Application().get_response(rf.get("/readyz")).status_code == 503

    copy_context().run(answer)
    [line] = caplog.records
    assert "MiB free, 1099511627776 needed" in line.getMessage() and line.request_id == ""


@pytest.mark.django_db
def test_a_worker_elsewhere_is_known_by_its_heartbeat_for_a_minute():
    assert not worker.is_running()
    worker.beat()
    assert worker.is_running()
    Heartbeat.objects.update(at=timezone.now() - LEASE - dt.timedelta(seconds=1))
    assert not worker.is_running()
    worker.beat()
    assert worker.is_running() and Heartbeat.objects.count() == 1


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "postgresql", reason="on SQLite each server is a worker")
def test_a_server_without_a_worker_is_degraded_until_run_jobs_runs(tmp_path, new_server):
    with new_server(tmp_path, "gunicorn") as server:
        eventually(lambda: bad_parts(server) == (200, "degraded", {"worker"}))
        command = [sys.executable, "manage.py", "run_jobs"]
        with subprocess.Popen(command, cwd=ROOT, env=server.environment) as jobs:
            try:
                eventually(lambda: bad_parts(server) == (200, "ready", set()))
            finally:
                jobs.terminate()


@pytest.mark.slow
def test_from_sigterm_on_it_is_draining(tmp_path, new_server):
    """A request that had begun is completed after the server has stopped listening."""
    with new_server(tmp_path, "gunicorn-asgi") as server, closing(server.connect()) as line:
        line.connect()
        line.sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n")
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: refuses_connections(server))
        line.sock.sendall(b"\r\n")
        answer = HTTPResponse(line.sock)
        answer.begin()
        assert (answer.status, answer.read()) == (503, b"draining\n")


def refuses_connections(server: Server) -> bool:
    try:
        with closing(server.connect()) as line:
            line.connect()
    except ConnectionRefusedError:
        return True
    return False
