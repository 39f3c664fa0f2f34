"""Unknown query parameters: writes refuse them, reads name them."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import pytest

from tests.core.test_request_steps import example
from tests.permission_cases import CELLS, PEOPLE, PermissionCase
from tests.routes import described_paths, routed
from tests.sample_data import everything
from tests.test_queries import name_of, typical

pytestmark = pytest.mark.once

HEADER = "X-Ignored-Parameters"
WRITES = list(
    {one.operation: one for one in typical(CELLS) if not one.operation.startswith("GET")}.values()
)
READS = [one for one in routed() if one.method == "GET" and one.path != "/tail-events"]


def known_of(operation) -> list[str]:
    found = operation.described.get("parameters", [])
    return sorted(one["name"] for one in found if one["in"] == "query")


def in_a_team(text: str) -> str:
    return text.replace("{owner}", "teams/{team_slug}")


@pytest.mark.parametrize("cell", WRITES, ids=name_of)
def test_a_write_refuses_what_it_does_not_know_and_names_what_it_does(
    cell, sample, db, tmp_path_factory
):
    method, path = PermissionCase(cell, sample, tmp_path_factory).request()
    before = everything()
    path += f"{'&' if '?' in path else '?'}expected_head=1&page=1"
    answer = sample.api(PEOPLE[cell.who]).send(method, path, cell.body)
    [known] = [known_of(one) for one in routed() if str(one) == in_a_team(cell.operation)]
    text = f"Known: {', '.join(known)}." if known else "This request takes no query parameters."
    detail = answer.fails(422, "unknown_parameter")
    assert detail == f'Unknown: "expected_head", "page". {text}'
    assert everything() == before


def test_every_write_was_tried():
    tried = {in_a_team(cell.operation) for cell in WRITES}
    assert tried == {
        str(one)
        for one in routed()
        if one.method != "GET" and "/users/{username}/repos" not in one.path
    }


def test_a_mistyped_guard_is_no_guard_and_so_is_refused(sample, db):
    pull = sample.pulls[sample.repos["team", "private"].pk]
    url = f"/teams/acme/repos/private/pulls/{pull.number}"
    alice = sample.api("alice")
    sha = "0" * 40
    for method, path, body in (
        ("POST", "merge", {}),
        ("POST", "reviews", {"status": "approved"}),
        ("PUT", "status", {"status": "closed"}),
    ):
        answer = alice.send(method, f"{url}/{path}?expected_head_sah={sha}", body)
        answer.fails(422, "unknown_parameter")
    assert alice.get(url).gives()["status"] == "open"


def test_it_is_said_after_all_that_hides_something_and_before_the_body(sample, db):
    teams = "/teams/acme/members?x=1"
    sample.api(None).send("POST", teams, b"{").fails(401, "not_authenticated")
    sample.api("carol").send("POST", teams, b"{").fails(403, "forbidden")
    sample.api("alice").send("POST", "/teams/nobody/members?x=1", b"{").fails(404, "not_found")
    sample.api("alice").send("POST", teams, b"{").fails(422, "unknown_parameter")


@pytest.mark.parametrize("one", READS, ids=str)
def test_a_read_ignores_what_it_does_not_know_and_says_so(one, sample, db):
    needed = "&scope=self" if one.path == "/events" else ""
    known = "".join(f"&{name}=" for name in {*known_of(one)} & {"search", "created_by"})
    for method in ("GET", "HEAD"):
        plain = sample.api("sam").send(method, f"{example(one.path)}?{needed}{known}")
        assert HEADER not in plain.response.headers
        told = sample.api("sam").send(method, f"{example(one.path)}?tabel=1&tabel=2{needed}{known}")
        assert told.status == plain.status
        if plain.status < 400:
            assert told.header(HEADER) == "tabel"


def test_the_live_stream_says_so_too(sample, db):
    answer = sample.api("alice").send("HEAD", "/tail-events?scope=self&last_event=7&html=true")
    assert (answer.status, answer.header(HEADER)) == (200, "last_event")


def test_what_is_refused_by_its_value_is_told_what_was_ignored_as_well(sample, db):
    answer = sample.api("alice").get("/teams?pgae=2&page=0")
    answer.fails(422, "validation_failed")
    assert answer.header(HEADER) == "pgae"


def test_the_header_stands_beside_those_of_rate_limits(sample, db):
    limit = {"scope": "api", "max_requests": 9, "window_seconds": 60, "is_enabled": True}
    sample.api("sam").post("/rate-limits", **limit).gives(201)
    answer = sample.api("alice").get("/teams?pgae=2")
    assert (answer.header(HEADER), answer.header("X-RateLimit-Limit")) == ("pgae", "9")


HOSTILE = ["a\r\nSet-Cookie: x=1", "a, b", "ä\u2028", "\0", "*", "%", "=", "a" * 300]


def test_no_name_writes_another_header_or_looks_like_two(sample, db):
    for name in HOSTILE:
        answer = sample.api("alice").get(f"/teams?{quote(name)}=1")
        assert answer.status == 200
        told = answer.header(HEADER)
        assert re.fullmatch(r"[A-Za-z0-9_.~%-]*", told)
        assert unquote(told) == name


def test_a_parameter_without_a_name_is_not_told(sample, db):
    nameless = sample.api("alice").get("/teams?=1")
    assert nameless.status == 200
    assert HEADER not in nameless.response.headers
    assert sample.api("alice").get("/teams?a=1&=1&b=1").header(HEADER) == "a, b"


def test_the_header_has_an_end(sample, db):
    names = [f"parameter-{number}" for number in range(200)]
    answer = sample.api("alice").get("/teams?" + "&".join(f"{name}=1" for name in names))
    told = answer.header(HEADER).split(", ")
    assert len(answer.header(HEADER)) <= 500
    assert told.pop() == "*"
    assert told == names[: len(told)]
    long = sample.api("alice").get(f"/teams?{'a' * 501}=1&b=1")
    assert long.header(HEADER) == "*"


def test_every_read_describes_the_header_and_no_write_does():
    for path, item in described_paths().items():
        for method, described in item.items():
            for status, answer in described["responses"].items():
                if status.startswith("2"):
                    assert (HEADER in answer["headers"]) == (method == "get"), path
