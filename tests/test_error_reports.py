"""Reports to Sentry and spans for OpenTelemetry: sent if wanted, and without secrets."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.gitclient import Git
from tests.server import ROOT, Server
from tests.waiting import eventually

SECRETS = {
    "query": "hushquery",
    "header": "hushheader",
    "cookie": "hushcookie",
    "body": "hushbody",
    "mail": "hush@example.org",
    "path": "hushpath",
}


class Receiver(ThreadingHTTPServer):
    """Keeps all requests, as bytes that are not compressed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Keep)
        self.requests: list[bytes] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"

    def received(self, *texts: bytes) -> bool:
        """Whether one request has all these texts."""
        return any(all(text in request for text in texts) for request in self.requests)


class Keep(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        elif self.headers.get("Content-Encoding") == "deflate":
            body = zlib.decompress(body)
        self.server.requests.append(self.requestline.encode() + bytes(self.headers) + body)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


KINDS = ["serve", pytest.param("gunicorn-deployed", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=KINDS)
def reporting(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_server: Callable[..., Server],
    receiver: Receiver,
) -> Iterator[Server]:
    environment = {
        "SENTRY_DSN": f"http://key@{receiver.address}/1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{receiver.address}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "DJANGO_SETTINGS_MODULE": "tests.core.broken_settings",
        "WEB_CONCURRENCY": "2",
    }
    folder = tmp_path_factory.mktemp("reports")
    with new_server(folder, request.param, **environment) as server:
        yield server


def send(server: Server, path: str) -> str:
    """A POST with a secret in each of its parts; returns the id of the request."""
    headers = {
        "Authorization": f"Bearer {server.token('alice')}",
        "Cookie": f"sessionid={SECRETS['cookie']}",
        "Referer": f"http://localhost/{SECRETS['header']}",
        "User-Agent": SECRETS["header"],
        "Content-Type": "application/json",
    }
    body = f'{{"password": "{SECRETS["body"]}", "email": "{SECRETS["mail"]}"}}'
    with closing(server.connect()) as connection:
        connection.request("POST", f"{path}?q={SECRETS['query']}", body, headers)
        response = connection.getresponse()
        assert response.status == 500, response.read()
        return str(response.getheader("X-Request-Id"))


def test_an_error_is_reported_without_any_secret(reporting, receiver):
    request_id = send(reporting, f"/api/v1/telltale/{SECRETS['path']}").encode()
    eventually(
        lambda: receiver.received(b"ValueError", request_id, b'"telltale"', b"/api/1/envelope")
    )
    eventually(lambda: receiver.received(b"/v1/traces", request_id))
    everything = b"".join(receiver.requests)
    assert all(secret in reporting.log for secret in SECRETS.values())
    for part, secret in {**SECRETS, "token": reporting.token("alice")}.items():
        assert secret.encode() not in everything, part


def test_spans_name_operations_and_gits_and_leave_out_streams(reporting, receiver, tmp_path):
    token = reporting.token("alice")
    alice = reporting.api("alice")
    slug = f"spans-{reporting.kind}"
    alice.post("/users/alice/repos", name="Spans", slug=slug).gives(201)
    ours = Git(tmp_path / "ours", f"{reporting.url}/users/alice/{slug}.git", token)
    ours.commit()
    ours("push", "--quiet", ours.url, "main")
    eventually(lambda: receiver.received(b"/v1/traces", b"git receive-pack"))
    alice.get("/tail-events?scope=nothing").fails(422, "invalid_scope")
    alice.get("/users/self").gives(200)
    eventually(lambda: receiver.received(b"/v1/traces", b"get_own_user"))
    everything = b"".join(receiver.requests)
    assert b"create_user_repo" in everything and b"tail_events" not in everything
    assert token.encode() not in everything and slug.encode() not in everything


@pytest.mark.slow
def test_the_last_spans_are_sent_at_the_end_if_the_collector_answers(
    tmp_path, new_server, receiver
):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [receiver.address, f"127.0.0.1:{silent.getsockname()[1]}"]
        for folder, address in zip("ab", addresses, strict=True):
            given = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}"}
            given["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"
            (tmp_path / folder).mkdir()
            with new_server(tmp_path / folder, WEB_CONCURRENCY="1", **given) as server:
                server.api("alice").get("/teams").gives(200)
                server.stop(signal.SIGINT)
                assert "SIGKILL" not in server.log, "gunicorn has waited in vain"
    assert receiver.received(b"/v1/traces", b"list_teams")


HIDDEN = """
import sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, *args):
        hidden = name in {"sentry_sdk", "opentelemetry"}
        return None if hidden else super().find_spec(name, *args)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hidden
"""


@pytest.mark.once
def test_a_start_without_the_packages_says_how_to_install_them(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "SENTRY_DSN": "http://key@127.0.0.1/1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    install = ".venv/bin/python -m pip install --require-hashes -r requirements-"
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"SENTRY_DSN: needs packages that are not installed: {install}sentry.txt",
        "OTEL_EXPORTER_OTLP_ENDPOINT: needs packages that are not installed: "
        f"{install}opentelemetry.txt",
    ]
