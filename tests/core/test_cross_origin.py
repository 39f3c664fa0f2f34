"""CORS: pages of the origins of the setting may call the API with a token, and others may not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.test.client import ClientHandler

from apps.core.middleware import FIELD_LIMIT
from apps.core.slugs import PREFIX
from config import bodies
from config.handler import Handler
from tests import test_bodies
from tests.api import HANDLER
from tests.core.test_request_steps import example
from tests.routes import described, described_paths
from tests.test_permissions import writing

APP, OTHER = "https://app.example.org", "https://evil.example"
ALLOW = "Access-Control-Allow-Origin"
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
SAFE = {"Content-Type", "Cache-Control"}
"""Headers of answers that every page may read."""


@pytest.fixture
def client(settings: Any) -> Client:
    """A browser's requests to a site with this setting."""
    settings.CORS_ALLOWED_ORIGINS = [APP]
    client = Client(raise_request_exception=False)
    client.handler = ClientHandler(enforce_csrf_checks=False)
    return client


@pytest.fixture
def bearer(make: Any, alice: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {make.token(alice)}"}


def words(header: str) -> set[str]:
    return {word.strip().lower() for word in header.split(",")}


def preflight(client: Client, path: str, method: str, origin: str = APP) -> Any:
    headers = {"Origin": origin, "Access-Control-Request-Method": method}
    return client.options(path, headers=headers)


# Preflights


def test_a_preflight_of_every_operation_is_answered(client):
    for path, operations in described_paths().items():
        for method in operations:
            answer = preflight(client, PREFIX + example(path), method.upper())
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer[ALLOW] == APP
            assert method in words(answer["Access-Control-Allow-Methods"])
            assert int(answer["Access-Control-Max-Age"]) > 0
            assert answer["X-Request-Id"]


def test_a_page_may_send_each_header_of_the_document(client):
    sent = {"Authorization", "Content-Type"}
    for operations in described_paths().values():
        for operation in operations.values():
            parameters = operation.get("parameters", [])
            sent |= {one["name"] for one in parameters if one["in"] == "header"}
    answer = preflight(client, f"{PREFIX}/teams", "POST")
    assert words(answer["Access-Control-Allow-Headers"]) == {name.lower() for name in sent}


def test_a_page_may_read_each_header_of_the_document(client, db):
    answers = [one for part in described_paths().values() for one in part.values()]
    shared = [*described()["components"]["responses"].values()]
    responses = [*shared, *(one for part in answers for one in part["responses"].values())]
    names = {name for one in responses for name in one.get("headers", {})}
    others = {"Allow", "Content-Disposition", "WWW-Authenticate", "X-Request-Id"}
    answer = client.get(f"{PREFIX}/openapi.json", headers={"Origin": APP})
    exposed = words(answer["Access-Control-Expose-Headers"])
    assert exposed == {name.lower() for name in (names | others) - SAFE}


@pytest.mark.parametrize("origin", [OTHER, "null", f"{APP}:8443", "http://app.example.org", ""])
def test_other_origins_are_not_allowed(client, db, origin):
    for answer in (
        preflight(client, f"{PREFIX}/teams", "POST", origin),
        client.get(f"{PREFIX}/openapi.json", headers={"Origin": origin}),
    ):
        assert ALLOW not in answer
        assert "origin" in words(answer["Vary"])


def test_options_that_are_no_preflight_are_405(client):
    answer = client.options(f"{PREFIX}/teams", headers={"Origin": APP})
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")


# Answers


def test_a_read_is_stored_by_origin(client, bearer):
    url = f"{PREFIX}/users/self"
    answer = client.get(url, headers={**bearer, "Origin": APP})
    assert (answer.status_code, answer[ALLOW]) == (200, APP)
    assert words(answer["Vary"]) == {"accept-encoding", "origin"}
    same = {**bearer, "Origin": APP, "If-None-Match": answer["ETag"]}
    unchanged = client.get(url, headers=same)
    assert (unchanged.status_code, unchanged[ALLOW]) == (304, APP)


def test_a_page_may_write_with_a_token(client, bearer):
    sent = {**bearer, "Origin": APP, "Sec-Fetch-Site": "cross-site"}
    body = b'{"name": "Acme", "slug": "acme"}'
    answer = client.post(f"{PREFIX}/teams", body, "application/json", headers=sent)
    assert (answer.status_code, answer[ALLOW]) == (201, APP)


ERRORS: list[tuple[int, str, str, dict[str, str]]] = [
    (401, "GET", "/users/self", {"Authorization": "Bearer ght_wrong"}),
    (403, "DELETE", "/users/bob?confirm=bob", {}),
    (404, "GET", "/nothing", {}),
    (405, "PATCH", "/teams", {}),
    (414, "GET", f"/teams?search={'x' * 8000}", {}),
    (415, "POST", "/teams", {}),
    (431, "GET", "/teams", {"X-Long": "x" * (FIELD_LIMIT + 1)}),
    (400, "GET", "/users/self", {"Host": "evil.example"}),
]


@pytest.mark.parametrize(("status", "method", "path", "more"), ERRORS)
def test_a_page_can_read_each_error(client, bearer, bob, status, method, path, more):
    headers = {**bearer, "Origin": APP, **more}
    answer = client.generic(method, PREFIX + path, b"<a/>", "text/xml", headers=headers)
    assert (answer.status_code, answer[ALLOW]) == (status, APP)
    assert answer.json()["error"]


def test_a_page_can_read_a_defect(client, bearer, monkeypatch):
    monkeypatch.setattr("apps.teams.queries.list_teams", None)
    answer = client.get(f"{PREFIX}/teams", headers={**bearer, "Origin": APP})
    assert (answer.status_code, answer[ALLOW]) == (500, APP)


def test_a_page_can_read_that_its_body_came_too_slowly(settings, monkeypatch):
    """The handler of ASGI answers that, without a view."""
    settings.CORS_ALLOWED_ORIGINS, settings.ALLOWED_HOSTS = [APP], ["*"]
    monkeypatch.setattr(bodies, "LONGEST", 0.1)
    sender = test_bodies.Client(f"{PREFIX}/teams", test_bodies.unending())
    sender.headers_sent.append((b"origin", APP.encode()))
    sender.run(Handler())
    headers = {name.lower(): value for name, value in sender.headers.items()}
    assert (sender.status, headers[ALLOW.lower().encode()]) == (400, APP.encode())


# Cookies


def test_no_cookie_acts_for_another_origin(client, make, alice, upload_url):
    client.force_login(alice)
    body = b'{"display_name": "Mallory"}'
    requests = [
        ("PATCH", f"{PREFIX}/users/self"),
        ("GET", f"{PREFIX}/users/self"),
        ("GET", f"{PREFIX}/tail-events?scope=self"),
        ("GET", upload_url),
    ]
    for site in ("cross-site", "same-site"):
        headers = {"Origin": APP, "Sec-Fetch-Site": site}
        for method, path in requests:
            with writing() as written:
                answer = client.generic(method, path, body, "application/json", headers=headers)
            assert answer.status_code in {401, 403}, path
            assert "Access-Control-Allow-Credentials" not in answer
            assert written == []
    ours = client.head(upload_url, headers={"Sec-Fetch-Site": "same-origin"})
    assert ours.status_code == 200


@pytest.fixture
def upload_url(make: Any, alice: Any, team_repo: Any) -> str:
    upload = make.upload(team_repo, by=alice)
    return f"{PREFIX}/uploads/{upload.uuid}/content"


def test_pages_and_git_are_for_no_other_origin(client, db):
    for path in ("/", "/api/", "/admin/login/", "/acme/x.git/info/refs?service=git-upload-pack"):
        assert ALLOW not in preflight(client, path, "GET")
        assert ALLOW not in client.get(path, headers={"Origin": APP})


# Off


def test_without_the_setting_nothing_is_added(db):
    client = Client(raise_request_exception=False)
    client.handler = HANDLER
    refused = preflight(client, f"{PREFIX}/teams", "POST")
    assert refused.status_code == 405
    answer = client.get(f"{PREFIX}/openapi.json", headers={"Origin": APP})
    assert [name for name in answer.headers if re.match("access-control", name, re.I)] == []
    assert words(answer["Vary"]) == {"accept-encoding"}
