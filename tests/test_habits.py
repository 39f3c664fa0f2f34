"""Commands that Django developers know work as well: runserver, createsuperuser."""

import io
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.models import User
from config.installation import adopt
from tests.server import PATIENCE
from tests.tail import opened
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def page(port, path):
    """The page, when somebody listens there."""
    return eventually(lambda: fetch(port, path))


def fetch(port, path):
    """The page; None while nobody listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with closing(connection), suppress(ConnectionRefusedError):
        connection.request("GET", path)
        return connection.getresponse().read()


@contextmanager
def runserver(environment, folder):
    """A development server, started in this folder; yields its port."""
    port = free_port()
    manage = ["env", "--default-signal=INT", sys.executable, str(ROOT / "manage.py")]
    server = subprocess.Popen(
        [*manage, "runserver", "--noreload", str(port)],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert page(port, "/healthz") == b"ok\n"
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        said, _ = server.communicate(timeout=PATIENCE)
    assert b"Traceback" not in said


@pytest.mark.slow
@pytest.mark.once
def test_runserver_runs_from_anywhere(tmp_path):
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path / "data")}
    with runserver(environment, tmp_path) as port:
        assert b"--primary" in page(port, "/static/admin/css/base.css")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.slow
@pytest.mark.once
def test_runserver_streams_events_which_carry_its_address(tmp_path, new_server):
    data = new_server(tmp_path)
    with ExitStack() as open_now:
        open_now.callback(data.__exit__)
        port = open_now.enter_context(runserver(data.environment, tmp_path))
        data.url = f"http://127.0.0.1:{port}"
        stream = open_now.enter_context(opened(data, "alice", "scope=self"))
        data.api("alice").post("/teams", name="A", slug="a").gives(201)
        assert stream.take(1)[0].json["summary"]["web_url"] == f"{data.url}/teams/a"


def test_createsuperuser_makes_somebody_who_can_sign_in_to_the_admin(db, monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "correct horse")
    make = ["createsuperuser", "--noinput", "--email", "alice@example.org", "--username"]
    call_command(*make, "Alice", stdout=io.StringIO())
    with pytest.raises(CommandError, match="already taken"):
        call_command(*make, "alice")
    with pytest.raises(CommandError, match="letters or digits"):
        call_command(*make, "two words")
    assert User.objects.get().is_staff
    browser = Client()
    assert browser.login(username="alice", password="correct horse")
    assert "Administration" in browser.get("/admin/").content.decode()


def test_no_migration_is_missing_and_nothing_is_wrong_with_the_settings(db):
    adopt()  # a test that commits may have deleted the id of the installation
    call_command("makemigrations", "--check", "--dry-run", stdout=io.StringIO())
    call_command("check", "--fail-level", "WARNING", stdout=io.StringIO())
