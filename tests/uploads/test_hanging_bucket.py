"""A bucket that does not answer keeps nobody but its uploader waiting: locks are released soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command

from apps.repos import jobs
from apps.repos.models import Repo
from apps.uploads.models import Upload, remove_file_without_row
from tests.races import Aside, Outcome
from tests.uploads.conftest import BUCKET
from tests.uploads.test_uses import address

ANOTHER = "ab" * 32
pytestmark = pytest.mark.django_db(transaction=True)


class Hanging(ThreadingHTTPServer):
    """Passes requests on to a server, except those of the methods in `stuck`: they wait."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), Forward)
        self.behind = urlsplit(behind).netloc
        self.stuck: set[str] = set()
        self.reached, self.released = Event(), Event()


class Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hanging

    def forward(self) -> None:
        if self.command in self.server.stuck:
            self.server.reached.set()
            self.server.released.wait(300)
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        behind = HTTPConnection(self.server.behind)
        behind.request(self.command, self.path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding", "date", "server"}:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hanging(bucket: dict[str, str], settings: Any) -> Iterator[Hanging]:
    """A server before the bucket of uploads."""
    with Hanging(bucket["endpoint_url"]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        options = {**bucket, "endpoint_url": address}
        uploads = {"BACKEND": BUCKET, "OPTIONS": options}
        settings.STORAGES = {**settings.STORAGES, "uploads": uploads}
        yield server
        server.released.set()
        server.shutdown()


@contextmanager
def stuck(server: Hanging, method: str, act: Any) -> Iterator[Aside]:
    """Do something in a thread. The block runs when it waits for the bucket."""
    server.stuck = {method}
    doing = Aside(act)
    doing.start()
    assert server.reached.wait(60)
    yield doing
    doing.join(120)
    assert not doing.is_alive()


@pytest.mark.parametrize("method", ["PUT", "HEAD"])
def test_others_write_while_an_upload_waits(hanging, make, open_repo, alice, carol, method):
    make.upload(open_repo, by=alice)
    outcomes = []

    def upload() -> None:
        outcomes.append(Outcome(lambda: make.upload(open_repo, by=carol)))

    with stuck(hanging, method, upload):
        assert make.thread(open_repo, by=alice).number
        hanging.released.set()
    assert [outcome.status for outcome in outcomes] == [503]


def test_others_write_while_a_file_is_removed(hanging, make, open_repo, alice):
    digest = make.upload(open_repo, by=alice).sha256
    Upload.objects.all().delete()

    def remove() -> None:
        with pytest.raises(OSError, match=r"timeout|timed out|closed"):
            remove_file_without_row(digest)

    with stuck(hanging, "DELETE", remove):
        assert make.thread(open_repo, by=alice).number
        hanging.released.set()


def test_others_write_while_an_import_waits(hanging, make, open_repo, alice, tmp_path):
    upload = make.upload(open_repo, by=alice)
    make.thread(open_repo, by=alice, body=address(upload))
    call_command("export_repo", open_repo.path, str(tmp_path / "a.zip"))

    def move() -> None:
        with pytest.raises(CommandError, match="Nothing was imported"):
            call_command("import_repo", str(tmp_path / "a.zip"), "--user", "alice")

    with stuck(hanging, "PUT", move):
        assert make.thread(open_repo, by=alice).number
        assert not remove_file_without_row(ANOTHER), "the worker keeps files of an import"
        assert not [name for name in jobs.sweep(age=0) if ".tmp-" in name], "and its folder"
        hanging.released.set()
    assert Repo.objects.count() == 1
    assert remove_file_without_row(ANOTHER)
