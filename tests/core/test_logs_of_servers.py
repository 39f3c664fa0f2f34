"""Ids and lines of requests on each kind of server, and no secret in what they log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import orjson
import pytest

from tests.gitclient import Git
from tests.server import Server
from tests.tail import opened
from tests.waiting import eventually

KINDS = [
    "serve",
    pytest.param("gunicorn", marks=pytest.mark.slow),
    pytest.param("gunicorn-asgi", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=KINDS)
def logging_server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_server: Callable[..., Server],
) -> Iterator[Server]:
    folder, logs = tmp_path_factory.mktemp("logs"), {"LOG_FORMAT": "json", "ACCESS_LOG": "true"}
    with new_server(folder, request.param, TRUSTED_PROXIES="1", **logs) as server:
        yield server


def lines(server: Server) -> list[dict[str, Any]]:
    """The lines of requests so far."""
    objects = [orjson.loads(line) for line in server.lines if line.startswith("{")]
    return [line for line in objects if line["logger"] == "apps.core.request_log"]


def line_of(server: Server, request_id: str) -> dict[str, Any]:
    """The only line of this request."""

    def found() -> list[dict[str, Any]]:
        return [line for line in lines(server) if line["request_id"] == request_id]

    [line] = eventually(found)
    return line


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> Any:
    with closing(server.connect()) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        response.read()
        return response


def operations(server: Server) -> list[tuple[Any, ...]]:
    return [(line["operation"], line["person"], line["status"]) for line in lines(server)]


@pytest.mark.parametrize(
    ("path", "operation", "status"),
    [
        ("/api/v1/users/self", "get_own_user", 200),
        ("/api/v1/nothing", "-", 404),
        ("/signin", "signin", 200),
        ("/static/guildhall.svg", "static", 200),
        ("/teams/none/none.git/info/refs?service=git-upload-pack", "info/refs", 404),
        ("/api/v1/tail-events?scope=nothing", "tail_events", 422),
    ],
)
def test_an_answer_has_the_id_of_its_line(logging_server, path, operation, status):
    token = logging_server.token("alice")
    answer = ask(logging_server, path, Authorization=f"Bearer {token}")
    line = line_of(logging_server, answer.getheader("X-Request-Id"))
    assert (line["operation"], line["status"], answer.status) == (operation, status, status)
    assert line["address"] == "127.0.0.1" and line["path"] == path.partition("?")[0]


def test_the_id_of_the_proxy_is_in_answer_and_line(logging_server):
    sent = uuid4().hex
    headers = {"X-Request-Id": sent, "X-Forwarded-For": "192.0.2.7"}
    answer = ask(logging_server, "/signin", "HEAD", **headers)
    assert answer.getheader("X-Request-Id") == sent
    line = line_of(logging_server, sent)
    assert (line["method"], line["address"]) == ("HEAD", "192.0.2.7")


def test_a_push_and_a_clone_are_logged_with_person_and_gits(logging_server, tmp_path):
    slug = f"r{uuid4().hex[:12]}"
    alice = logging_server.api("alice")
    alice.post("/users/alice/repos", name="Api", slug=slug).gives(201)
    url = f"{logging_server.url}/users/alice/{slug}.git"
    ours = Git(tmp_path / "ours", url, logging_server.token("alice"))
    ours.commit()
    ours("push", "--quiet", ours.url, "main")
    ours("fetch", "--quiet", ours.url, "main")

    def of_git() -> dict[str, dict[str, Any]]:
        return {line["operation"]: line for line in lines(logging_server) if slug in line["path"]}

    eventually(lambda: {"git-upload-pack", "git-receive-pack"} <= of_git().keys())
    push = of_git()["git-receive-pack"]
    assert (push["person"], push["status"]) == ("alice", 200)
    assert push["gits"] > 0 and push["queries"] > 0


def test_a_stream_is_logged_when_it_opens(logging_server):
    if logging_server.kind == "gunicorn":
        pytest.skip("threads serve no stream")
    watched: Any = SimpleNamespace(url=logging_server.url, token=logging_server.token)
    with opened(watched, "alice", "scope=user:alice"):
        eventually(lambda: ("tail_events", "alice", 200) in operations(logging_server))


def test_the_log_holds_no_secret(logging_server, tmp_path: Path):
    server = logging_server
    token, invite = server.token("alice"), uuid4()
    for path in (
        "/reset/new?token=hush",
        "/settings/email?token=hush",
        "/signup?invite=hush",
        f"/signin?next=/settings/invites/{invite}/delete",
        f"/settings/invites/{invite}/delete",
        f"/settings/invites/{invite}/mistyped",
    ):
        ask(server, path, Referer="http://localhost/reset/new?token=hush")
    ask(server, f"/api/v1/signup-invites/{invite}", "DELETE", Authorization=f"Bearer {token}")
    address = server.url.replace("://", f"://{token}:@") + "/users/alice/none.git"
    Git(tmp_path / "swapped", address, None).fails("fetch", address)
    Git(tmp_path / "ours", address, None).fails(
        "fetch", address.replace(f"{token}:", f"any:{token}")
    )
    last = ask(server, "/signin").getheader("X-Request-Id")
    line_of(server, last)
    assert "/settings/invites/-/delete" in server.log and "none.git" in server.log
    for secret in ("hush", str(invite), token, "ght_"):
        assert secret not in server.log
