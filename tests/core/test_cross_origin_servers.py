"""CORS with real servers: streams, files and preflights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from apps.core.slugs import PREFIX
from tests.server import Server
from tests.tail import follow, opened

pytestmark = pytest.mark.once
APP, OTHER = "https://app.example.org", "https://evil.example"
ALLOW = "Access-Control-Allow-Origin"
STREAM = f"{PREFIX}/tail-events?scope=self"


@pytest.fixture(
    scope="module",
    params=["serve", pytest.param("gunicorn-asgi", marks=pytest.mark.slow)],
)
def site(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_server: Callable[..., Server],
) -> Iterator[Server]:
    """A server that names an origin. It is spelled as no browser sends it."""
    folder, names = tmp_path_factory.mktemp("origin"), "HTTPS://App.Example.org:443"
    with new_server(folder, request.param, CORS_ORIGINS=names) as running:
        yield running


def preflight(site: Server, path: str, origin: str) -> tuple[int, dict[str, str]]:
    headers = {"Origin": origin, "Access-Control-Request-Method": "PATCH"}
    with closing(site.connect()) as connection:
        connection.request("OPTIONS", path, headers=headers)
        answer = connection.getresponse()
        assert answer.read() == b""
        return answer.status, dict(answer.getheaders())


def named(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@pytest.mark.parametrize("path", [f"{PREFIX}/teams/acme", STREAM])
def test_a_preflight_is_answered_for_the_origin(site, path):
    status, headers = preflight(site, path, APP)
    assert (status, named(headers)[ALLOW.lower()]) == (200, APP)
    assert ALLOW.lower() not in named(preflight(site, path, OTHER)[1])


def test_the_stream_can_be_read_by_the_origin(site):
    with opened(site, "alice", "scope=self", Origin=APP) as stream:
        assert stream.headers[ALLOW] == APP
        site.api("alice").post("/teams", name="Acme", slug=f"acme-{site.kind}").gives(201)
        assert stream.kinds(1) == ["team-created"]
    with opened(site, "alice", "scope=self", Origin=OTHER) as stream:
        assert ALLOW not in stream.headers


def test_a_refused_stream_tells_the_origin_why(site):
    with follow(site, "alice", "scope=nothing", Origin=APP) as stream:
        assert (stream.status, stream.headers[ALLOW]) == (422, APP)
    with follow(site, "", "scope=self", Origin=APP) as stream:
        assert (stream.status, stream.headers[ALLOW]) == (401, APP)


def test_pieces_of_an_answer_are_sent_to_the_origin(site):
    answer = site.api("alice").get("/users/self/export", Origin=APP)
    assert (answer.status, answer.response.getheader(ALLOW)) == (200, APP)
