"""ETags of reads, and 304 for clients that have the current answer."""

from __future__ import annotations

import pytest

from apps.site.models import RateLimit

pytestmark = pytest.mark.once

GZIP = {"Accept-Encoding": "gzip"}


def unchanged(tag: str, **more: str) -> dict[str, str]:
    return {"If-None-Match": tag, **more}


@pytest.fixture
def threads(make, team_repo, alice) -> str:
    for number in range(9):
        make.thread(team_repo, by=alice, title=f"Thread {number}")
    return f"{team_repo.api_path}/threads"


def test_a_change_gives_another_tag(api, alice, threads):
    for path in (threads, f"{threads}/3"):
        tag = api(alice).get(path).header("ETag")
        assert api(alice).send("GET", path, headers=unchanged(tag)).status == 304
        api(alice).patch(f"{threads}/3", title=f"New title, {len(path)}").gives()
        changed = api(alice).send("GET", path, headers=unchanged(tag))
        assert changed.gives() and changed.header("ETag") != tag


def test_people_get_their_own_answers(api, alice, carol, threads):
    tag = api(alice).get("/teams").header("ETag")
    assert api(carol).send("GET", "/teams", headers=unchanged(tag)).gives()["results"] == []
    tag = api(alice).get(threads).header("ETag")
    for value in (tag, "*"):
        api(carol).send("GET", threads, headers=unchanged(value)).fails(403, "forbidden")


def test_any_answer_is_known_to_a_client_that_sends_an_asterisk(api, alice, threads):
    assert api(alice).send("GET", threads, headers=unchanged("*")).status == 304
    api(alice).send("GET", f"{threads}/99", headers=unchanged("*")).fails(404, "not_found")


def test_the_tag_of_a_compressed_answer_is_weak(api, alice, threads):
    """The tag of a 304 has the form in which the client sent it."""
    plain = api(alice).get(threads).header("ETag")
    assert plain.startswith('"')
    weak = api(alice).client.get(f"/api/v1{threads}", headers=api(alice).headers | GZIP)["ETag"]
    assert weak == f"W/{plain}"
    for tag in (plain, weak):
        for more in ({}, GZIP):
            answer = api(alice).send("GET", threads, headers=unchanged(tag, **more))
            assert (answer.status, answer.header("ETag")) == (304, tag)


def test_a_304_has_the_headers_of_rate_limits_and_of_ignored_parameters(api, alice, threads):
    RateLimit.objects.create(scope="api", max_requests=9, window_seconds=60)
    path = f"{threads}?colour=red"
    tag = api(alice).get(path).header("ETag")
    answer = api(alice).send("GET", path, headers=unchanged(tag))
    assert (answer.status, answer.header("X-RateLimit-Remaining")) == (304, "7")
    assert answer.header("X-Ignored-Parameters") == "colour"


def test_a_write_has_no_tag_and_ignores_those_of_the_client(api, alice, threads):
    for method, path, body, status in (
        ("PATCH", f"{threads}/1", {"title": "New"}, 200),
        ("POST", threads, {"title": "T", "body": "B", "kind": "question"}, 201),
    ):
        answer = api(alice).send(method, path, body, unchanged("*"))
        answer.gives(status)
        assert "ETag" not in answer.response and answer.header("Cache-Control") == "no-store"
