"""The steps of every request, and their order."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from apps.core.slugs import PREFIX
from tests.api import Answer, Api, plain_client
from tests.routes import Routed, routed
from tests.sample_data import everything

pytestmark = pytest.mark.once

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
BY_PATH = {
    path: list(group)
    for path, group in groupby(sorted(routed(), key=lambda one: one.path), key=lambda one: one.path)
}
EXAMPLES = {
    "{branch}": "main",
    "{tag}": "v1",
    "{basehead}": "main...main",
    "{uuid}": "00000000-0000-0000-0000-000000000000",
    "{review_uuid}": "00000000-0000-0000-0000-000000000000",
    "{comment_uuid}": "00000000-0000-0000-0000-000000000000",
    "{protection_uuid}": "00000000-0000-0000-0000-000000000000",
    "{webhook_uuid}": "00000000-0000-0000-0000-000000000000",
    "{delivery_uuid}": "00000000-0000-0000-0000-000000000000",
    "{user_uuid}": "00000000-0000-0000-0000-000000000000",
    "{fork_uuid}": "00000000-0000-0000-0000-000000000000",
    "{fork_username}": "alice",
    "{fork_team_slug}": "acme",
    "{team_slug}": "acme",
    "{username}": "alice",
    "{repo_slug}": "private",
    "{number}": "1",
    "{reply_number}": "1",
    "{version}": "1",
    "{versions}": "1...1",
    "{id}": "1",
    "{sha}": "1" * 40,
    "{path}": "src/hello.txt",
}


def example(path: str) -> str:
    return re.sub(r"\{\w+\}", lambda found: EXAMPLES[found[0]], path)


def send(method: str, path: str, api: Api, headers: dict[str, str] | None = None) -> Answer:
    sent = api.headers | (headers or {})
    return Answer(plain_client().generic(method, PREFIX + path, headers=sent))


@pytest.mark.parametrize("path", BY_PATH)
def test_a_method_that_is_not_routed_is_405_and_told_which_are(path, sample, db):
    routed_here = {one.method for one in BY_PATH[path]}
    allowed = routed_here | ({"HEAD"} if "GET" in routed_here else set())
    before = everything()
    for method in set(METHODS) - allowed:
        for caller in (None, "sam"):
            answer = send(method, example(path), sample.api(caller))
            assert answer.status == 405
            if method != "HEAD":
                detail = answer.fails(405, "method_not_allowed")
                assert all(one in detail for one in allowed)
            assert set(answer.header("Allow").split(", ")) == allowed
    assert everything() == before


@pytest.mark.parametrize("value", ["token ght_x", "Token ght_x", "ght_x", "Digest username=x"])
def test_who_sends_a_token_in_another_way_is_told_how(value, sample, db):
    answer = sample.api(None).send("GET", "/teams", headers={"Authorization": value})
    assert "Authorization: Bearer <token>" in answer.fails(401, "invalid_token")
    assert "ght_x" not in str(answer.json)


READS = [one for one in routed() if one.method == "GET"]


@pytest.mark.parametrize("one", READS, ids=str)
def test_head_is_get_without_its_body(one: Routed, sample, db):
    api = sample.api("sam")
    path = example(one.path) + ("?scope=self" if "events" in one.path else "")
    head = send("HEAD", path, api)
    assert head.response.content == b""
    if one.path != "/tail-events":
        get = send("GET", path, api)
        assert head.status == get.status
        assert head.header("Content-Type") == get.header("Content-Type")


@pytest.mark.parametrize("one", READS, ids=str)
def test_every_read_has_an_etag_if_the_document_says_so(one: Routed, sample, db):
    api = sample.api("sam")
    path = example(one.path) + ("?scope=inbox" if "events" in one.path else "")
    head = send("HEAD", path, api)
    if head.status != 200:
        assert "ETag" not in head.response and head.header("Cache-Control") == "no-store"
        return
    if "304" not in one.described["responses"]:
        assert "ETag" not in head.response
        return
    if "ETag" not in head.response:
        assert one.path.endswith("/archive"), "only some formats of archives never change"
        return
    tag, private = head.header("ETag"), head.header("Cache-Control").split(", ")
    assert {"private", "no-cache"} <= {*private} and "Accept-Encoding" in head.header("Vary")
    for method in ("GET", "HEAD"):
        again = send(method, path, api, {"If-None-Match": f'"other", {tag}'})
        assert (again.status, again.response.content) == (304, b"")
        for name in ("ETag", "Cache-Control", "Vary"):
            assert again.header(name) == head.header(name)
        assert "Content-Type" not in again.response


@pytest.mark.parametrize(
    "path", ["/none", "/v2/teams", "/v1", "/v1/", "/v1/nothing", "/v1/teams/a/b"]
)
def test_an_unknown_address_is_404_whoever_asks_and_how(path):
    answers = {method: Answer(plain_client().generic(method, "/api" + path)) for method in METHODS}
    head = answers.pop("HEAD")
    assert (head.status, head.json) == (404, None)
    for method, answer in answers.items():
        assert answer.fails(404, "not_found"), method


@pytest.fixture
def broken(settings, db):
    settings.ROOT_URLCONF = "tests.core.broken"
    return Api(None)


def test_a_defect_is_a_500_that_tells_nothing(broken, caplog):
    detail = send("GET", "/broken", broken).fails(500, "internal_error")
    assert "division" not in detail
    assert "ZeroDivisionError" in caplog.text
    send("PUT", "/broken", broken).fails(500, "internal_error")


def test_a_database_that_cannot_be_had_is_503_and_when_to_come_back(broken):
    answer = send("POST", "/broken", broken)
    assert "secret" not in answer.fails(503, "unavailable")
    assert answer.header("Retry-After") == "1"


def test_what_django_itself_refuses_is_error_body_too(broken):
    answer = send("GET", "/plain", broken)
    answer.fails(403, "forbidden")
    assert answer.header("Content-Type") == "application/json"


def test_a_method_without_a_declaration_is_refused(broken):
    send("DELETE", "/broken", broken).fails(405, "method_not_allowed")


ORDER = [
    (405, "method_not_allowed", None, "POST", "/teams/nobody"),
    (401, "not_authenticated", None, "PUT", "/teams/nobody?page=x"),
    (404, "not_found", "carol", "POST", "/teams/nobody/members"),
    (403, "forbidden", "carol", "GET", "/teams/acme/members/nobody"),
    (403, "forbidden", "carol", "GET", "/teams/acme/repos/private/threads/999"),
    (404, "not_found", "vera", "GET", "/teams/acme/repos/private/threads/999?page=x"),
    (403, "role_required", "vera", "POST", "/teams/acme/members"),
    (404, "not_found", "dan", "PUT", "/teams/acme/members/nobody"),
    (400, "malformed_request", "dan", "PUT", "/teams/acme/members/alice"),
    (422, "validation_failed", "vera", "GET", "/teams/acme/members?page=x"),
]


@pytest.mark.parametrize(("status", "code", "caller", "method", "path"), ORDER)
def test_the_earlier_step_answers_first(status, code, caller, method, path, sample, db):
    send(method, path, sample.api(caller)).fails(status, code)


def test_a_body_is_read_before_the_state_of_things_is_asked(sample, db):
    api = sample.api("alice")
    api.put("/teams/acme/members/alice", role="king").fails(422, "validation_failed")
    api.put("/teams/acme/members/alice", role="viewer").fails(409, "last_owner")


def test_a_stranger_cannot_tell_a_missing_row_from_one_that_is_there(sample, db):
    thread = sample.threads[sample.repos["team", "private"].pk]
    there, missing = (
        sample.api("carol").get(f"/teams/acme/repos/private/threads/{number}")
        for number in (thread.number, 999)
    )
    assert (there.status, there.json) == (missing.status, missing.json)
