"""git, the API and the live stream behind nginx, with the configuration in `deploy/`."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson
import pytest

from tests.gitclient import Git
from tests.server import PATIENCE, ROOT, Server
from tests.tail import opened
from tests.waiting import eventually

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/guildhall.conf;
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def listens(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until the process listens; nginx does not report that."""

    def connects() -> bool:
        assert process.poll() is None, "nginx does not start"
        with socket.socket() as line:
            line.settimeout(PATIENCE)
            return line.connect_ex(("127.0.0.1", port)) == 0

    eventually(connects)


def several(servers: Iterable[Server]) -> str:
    """The addresses of an upstream."""
    return "; server ".join(server.url.removeprefix("http://") for server in servers)


def plain_http() -> str:
    """The configuration without TLS."""
    sed = ["sed", "-f", "deploy/plain-http.sed", "deploy/nginx.conf"]
    return subprocess.run(sed, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@contextmanager
def nginx(folder: Path, *nodes: tuple[Server, Server]) -> Iterator[str]:
    """Run nginx in front of these nodes, each a server for pages and one for the stream; yields its
    address.
    """
    port = free_port()
    text = plain_http()
    for written, meant in (
        ("    listen [::]:80;\n", ""),
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("/var/log/nginx/", f"{folder}/"),
        ("127.0.0.1:8000", several(node[0] for node in nodes)),
        ("127.0.0.1:8001", several(node[1] for node in nodes)),
    ):
        assert written in text
        text = text.replace(written, meant)
    (folder / "guildhall.conf").write_text(text)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder))
    assert NGINX is not None
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            listens(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


HAS_NGINX = pytest.mark.skipif(
    NGINX is None and "CI" not in os.environ, reason="nginx is not installed"
)


def test_nginx_listens_on_ipv6_as_on_ipv4():
    """Otherwise Debian's welcome page answers clients with IPv6."""
    for text in ((ROOT / "deploy/nginx.conf").read_text(), plain_http()):
        ports = re.findall(r"listen (\d.*;)", text)
        assert ports and ports == re.findall(r"listen \[::\]:(\d.*;)", text)


@pytest.mark.slow
@pytest.mark.once
@HAS_NGINX
@pytest.mark.parametrize("server", ["gunicorn"], indirect=True)
def test_everything_works_behind_nginx(server, tmp_path):
    """A push that is too large for nginx's memory, its clone, and its events in a stream."""
    with Server(tmp_path / "stream", "gunicorn-asgi", beside=server) as stream:
        (tmp_path / "nginx").mkdir()
        with nginx(tmp_path / "nginx", (server, stream)) as url:
            alice = server.api("alice")
            alice.post("/users/alice/repos", name="Behind", slug="behind").gives(201)
            watched: Any = SimpleNamespace(url=url, token=server.token)
            with opened(watched, "alice", "scope=repo:users/alice/behind") as events:
                address = f"{url}/users/alice/behind.git"
                ours = Git(tmp_path / "ours", address, server.token("alice"))
                (ours.folder / "large").write_bytes(os.urandom(20 * 1024 * 1024))
                head = ours.commit()
                ours("push", "--quiet", ours.url, "main")
                assert events.take(1)[0].kind == "branch-created"
                ours("push", "--quiet", ours.url, "main:feature/x")
                for branch in ("feature/x", "feature%2Fx"):
                    behind = f"/api/v1/users/alice/repos/behind/branches/{branch}"
                    assert named(url, behind, server.token("alice")) == "feature/x"
            theirs = Git(tmp_path / "theirs", address, server.token("alice"))
            theirs("pull", "--quiet", theirs.url, "main")
            assert theirs("rev-parse", "HEAD") == head


def named(url: str, path: str, token: str) -> str:
    """The name of the resource at a path, which is sent unchanged."""
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as line:
        line.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = line.getresponse()
        assert answer.status == 200
        return str(orjson.loads(answer.read())["name"])


INVITE = str(uuid4())
SECRETS = ["/signup?invite=hush", "/reset/new?token=hush", "/settings/email?token=hush"]
SECRETS += ["/signin?next=/settings/email%3Ftoken%3Dhush", f"/api/v1/signup-invites/{INVITE}"]
SECRETS += [f"/settings/invites/{INVITE}/delete", f"//settings/invites/{INVITE}"]
SECRETS += [f"/settings/invites//{INVITE}/delete", f"/settings/invites/%20{INVITE}%0Ax"]


@HAS_NGINX
def test_no_log_of_nginx_holds_what_is_secret_in_an_address(tmp_path):
    """No server listens behind nginx, which logs most about failures."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead: Any = SimpleNamespace(url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with nginx(tmp_path, (dead, dead)) as url:
            for path in ["/teams/acme", *SECRETS]:
                with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
                    headers = {"Authorization": f"Basic {b64encode(b'ght_hush:').decode()}"}
                    connection.request("GET", path, headers=headers)
                    assert connection.getresponse().status == 502
    access, error = ((tmp_path / f"{name}.log").read_text() for name in ("access", "error"))
    assert "/teams/acme" in error and access.count(" 502 ") == 1 + len(SECRETS)
    for path in ("/reset/new", "/api/v1/signup-invites/-", "/settings/invites/-"):
        assert path in access
    for secret in ("hush", INVITE):
        assert secret not in access + error


def half_a_fetch(url: str) -> socket.socket:
    parts = urlsplit(url)
    line = socket.create_connection((str(parts.hostname), parts.port), PATIENCE)
    line.sendall(
        b"POST /users/alice/api.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 100\r\n\r\n" + bytes(50)
    )
    return line


@HAS_NGINX
def test_a_fetch_is_handed_on_when_it_has_come(tmp_path):
    """nginx passes a fetch on when it is complete, as a slow one would hold a thread of the server.

    No server listens behind nginx: a request that is passed on fails.
    """
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        dead: Any = SimpleNamespace(url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with nginx(tmp_path, (dead, dead)) as url, closing(half_a_fetch(url)) as slow:
            with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
                connection.request("GET", "/teams/acme")
                assert connection.getresponse().status == 502
            assert not select.select([slow], [], [], 0)[0]
            slow.sendall(bytes(50))
            assert slow.recv(12) == b"HTTP/1.1 502"


@pytest.mark.slow
@pytest.mark.once
@HAS_NGINX
def test_a_node_that_does_not_answer_is_given_up_soon(tmp_path):
    """Its queue of connections is full, so that its kernel drops new ones, as if the node had
    vanished. By default nginx would wait for a minute.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as queue:
        for _ in range(3):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        silent: Any = SimpleNamespace(url=f"http://127.0.0.1:{full.getsockname()[1]}")
        with nginx(tmp_path, (silent, silent)) as url:
            begin = time.monotonic()
            with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
                connection.request("GET", "/teams/acme")
                assert connection.getresponse().status == 504
            assert time.monotonic() - begin < 30
