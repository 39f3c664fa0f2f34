"""Compressed answers, and those that must not be compressed."""

from __future__ import annotations

import gzip
import http.client
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from apps.core import openapi
from apps.core.compression import LEAST
from tests.events.conftest import ON_SERVE
from tests.gitclient import Clone
from tests.tail import opened

GZIP = {"Accept-Encoding": "br, gzip"}
LONG = "Why is this slow? " * 200


@pytest.fixture
def fetch(api, alice):
    """`fetch(path)`: Django's response for alice, who accepts gzip."""

    def get(path, method="GET", **headers):
        client = api(alice)
        accepting = client.headers | GZIP | headers
        return client.client.generic(method, f"/api/v1{path}", headers=accepting)

    return get


@pytest.fixture
def thread(make, team_repo, alice) -> str:
    make.thread(team_repo, by=alice, body=LONG)
    return f"{team_repo.api_path}/threads/1"


def test_a_client_that_accepts_gzip_gets_less(fetch, thread):
    plain, packed = fetch(thread, **{"Accept-Encoding": ""}), fetch(thread)
    assert "Content-Encoding" not in plain and packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert int(packed["Content-Length"]) == len(packed.content) < len(plain.content) / 3
    assert plain["Vary"] == packed["Vary"] == "Accept-Encoding"
    head = fetch(thread, "HEAD")
    for name in ("Content-Encoding", "Content-Length", "ETag", "Vary"):
        assert head[name] == packed[name]


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("GZip;q=0.5, br", True),
        ("br;q=0,gzip; q=1", True),
        ("", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("identity, deflate", False),
    ],
)
def test_only_a_client_that_accepts_gzip_gets_it(fetch, thread, accepted, is_packed):
    answer = fetch(thread, **{"Accept-Encoding": accepted})
    assert ("Content-Encoding" in answer) == is_packed


def test_a_short_answer_an_error_and_the_answer_to_a_write_stay_as_they_are(fetch, thread):
    for path, method, status in (
        ("/users/self", "GET", 200),
        ("/nothing", "GET", 404),
        (f"{thread}/pin", "POST", 404),
    ):
        answer = fetch(path, method)
        assert answer.status_code == status and len(answer.content) < LEAST
        assert "Content-Encoding" not in answer


def test_the_description_is_compressed_once(fetch):
    first, second = fetch("/openapi.json"), fetch("/openapi.json")
    assert gzip.decompress(first.content) == openapi.text() and first.content == second.content
    assert len(first.content) * 10 < len(openapi.text())
    assert openapi.text_as_gzip.cache_info().misses == 1
    assert first["ETag"] == f"W/{openapi.etag()}"
    tag = {"If-None-Match": first["ETag"]}
    assert fetch("/openapi.json", **tag).status_code == 304


# Secrets: a text that the client chooses, in the same compressed answer, would help to guess them.


def assert_secret(answer, text):
    assert answer.status_code in {200, 201} and text in answer.content.decode()
    assert len(answer.content) > 200 and "ETag" not in answer
    assert "Content-Encoding" not in answer and answer["Cache-Control"] == "no-store"


@pytest.fixture
def invites(api, sam, alice) -> list[str]:
    alice.is_staff = True
    alice.save()
    return [
        api(sam).post("/signup-invites", email=address, expires_at="1d").gives(201)["uuid"]
        for address in (f"{number}@example.org" for number in range(5))
    ]


def test_an_answer_with_an_invite_is_not_compressed(fetch, invites):
    """The uuid of an invite is its link; `next` repeats the search."""
    assert_secret(fetch("/signup-invites?search=example"), invites[0])
    assert_secret(fetch(f"/signup-invites/{invites[0]}"), invites[0])


def test_events_about_invites_are_not_compressed(fetch, api, sam, invites, thread):
    assert_secret(fetch("/events?scope=site"), invites[0])
    [event, *_] = api(sam).get("/events?scope=site").gives()["results"]
    assert_secret(fetch(f"/events/{event['id']}"), invites[-1])
    assert fetch("/events?scope=self")["Content-Encoding"] == "gzip"


def test_a_new_token_is_not_compressed(api, alice):
    client = api(alice)
    answer = client.client.post(
        "/api/v1/api-tokens",
        {"name": "x" * 255},
        "application/json",
        headers=client.headers | GZIP,
    )
    assert_secret(answer, answer.json()["token"])


# Answers that are compressed already, or are sent while they are made


def test_files_and_archives_are_sent_as_they_are(fetch, team_repo, alice, tmp_path):
    clone = Clone(tmp_path, team_repo, alice)
    clone.push_commit("main", {"long.txt": LONG, "data.json": f'["{LONG}"]'})
    for path in ("raw/long.txt", "raw/data.json", "archive?format=tar", "archive?format=zip"):
        answer = fetch(f"{team_repo.api_path}/{path}")
        assert answer.status_code == 200 and "Content-Encoding" not in answer, path
        assert len(answer.getvalue()) >= (0 if "zip" in path else len(LONG))
    assert fetch(f"{team_repo.api_path}/contents/long.txt")["Content-Encoding"] == "gzip"


@ON_SERVE
def test_a_stream_is_not_compressed(server):
    with opened(server, "alice", "scope=self", **GZIP) as stream:
        assert "Content-Encoding" not in stream.headers


def test_a_connection_survives_a_304_and_a_compressed_answer(server):
    address = urlsplit(server.url)
    with closing(http.client.HTTPConnection(address.hostname, address.port)) as connection:
        check_connection(connection)


def check_connection(connection):
    def get(**headers):
        connection.request("GET", "/api/v1/openapi.json", headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    _, _, plain = get()
    _, headers, packed = get(**GZIP)
    assert gzip.decompress(packed) == plain
    used = connection.sock
    status, again, body = get(**{"If-None-Match": headers["ETag"]})
    assert (status, again["ETag"], body) == (304, headers["ETag"], b"")
    assert get()[2] == plain and connection.sock is used
