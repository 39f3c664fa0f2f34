"""Writes that a browser sends for another site are refused, with stored credentials as well."""

from __future__ import annotations

import base64

import pytest

from apps.core.slugs import PREFIX
from apps.core.views import UNSAFE
from tests.api import Answer, plain_client
from tests.core.test_request_steps import example
from tests.routes import Routed, routed
from tests.sample_data import SampleData, everything

pytestmark = pytest.mark.once

CHANGES = [one for one in routed() if one.method in UNSAFE]
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
    {"Origin": "https://evil.example"},
    {"Origin": "http://testserver:8001"},
    {"Origin": "https://testserver"},
    {"Origin": "null"},
    {"Origin": ""},
]
OURS = [
    {},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://testserver"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy.example"},
]
PUSH = "/teams/acme/private.git/git-receive-pack"
FETCH = "/teams/acme/private.git/git-upload-pack"


def basic(sample: SampleData, name: str) -> dict[str, str]:
    token = sample.api(name).headers["Authorization"].removeprefix("Bearer ")
    return {"Authorization": f"Basic {base64.b64encode(f':{token}'.encode()).decode()}"}


@pytest.mark.parametrize("one", CHANGES, ids=str)
def test_no_operation_lets_another_site_change_something(one: Routed, sample, db):
    credentials = basic(sample, "sam")
    before = everything()
    for said in FOREIGN[0], FOREIGN[3]:
        answer = plain_client().generic(
            one.method, PREFIX + example(one.path), headers={**credentials, **said}
        )
        Answer(answer).fails(403, "cross_site_request")
    assert everything() == before


def make_team(credentials, said):
    body, headers = b'{"name": "Fresh", "slug": "fresh"}', {**credentials, **said}
    client = plain_client()
    return Answer(
        client.generic("POST", f"{PREFIX}/teams", body, "application/json", headers=headers)
    )


@pytest.mark.parametrize("said", FOREIGN, ids=str)
def test_whatever_a_browser_says_of_another_site_is_refused(said, sample, db):
    for credentials in (basic(sample, "alice"), {}):
        make_team(credentials, said).fails(403, "cross_site_request")


@pytest.mark.parametrize("said", FOREIGN, ids=str)
def test_a_page_of_another_site_may_send_a_bearer_token_that_it_has(said, sample, db):
    """As in a panel of an editor: no browser adds such a token by itself."""
    make_team(sample.api("alice").headers, said).gives(201)


@pytest.mark.parametrize("said", OURS, ids=str)
def test_programs_and_the_own_site_pass(said, sample, db):
    make_team(basic(sample, "alice"), said).gives(201)


def test_the_origin_of_base_url_is_the_own_site(sample, db, settings):
    said = {"Origin": "https://code.example.org"}
    make_team(basic(sample, "alice"), said).fails(403, "cross_site_request")
    settings.CSRF_TRUSTED_ORIGINS = [said["Origin"]]
    make_team(basic(sample, "alice"), said).gives(201)


def test_a_page_without_tls_is_no_page_of_a_site_that_has_it(sample, db, settings):
    """Also if the proxy does not tell its scheme: others on the network could send this request."""
    said = {"Origin": "http://testserver"}
    settings.BASE_URL = "https://testserver"
    make_team(basic(sample, "alice"), said).fails(403, "cross_site_request")
    settings.BASE_URL = "http://testserver"
    make_team(basic(sample, "alice"), said).gives(201)


def test_reading_is_free(sample, db):
    for said in FOREIGN:
        headers = {**basic(sample, "alice"), **said}
        assert plain_client().get(f"{PREFIX}/teams", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [PUSH, FETCH])
def test_git_refuses_another_site_before_it_asks_who_calls(path, sample, db):
    for credentials in (basic(sample, "alice"), {"Authorization": "Basic unknown"}, {}):
        for said in FOREIGN:
            answer = plain_client().post(path, headers={**credentials, **said})
            assert (answer.status_code, answer.content[:12]) == (403, b"Another site")
    for said in OURS:
        headers = {**basic(sample, "alice"), **said}
        assert plain_client().post(path, headers=headers).status_code == 415


def test_each_server_refuses_another_site_and_lets_its_own_pass(server, path, git):
    alice, body = server.api("alice"), b'{"kind": "issue", "title": "x", "body": ""}'
    owner, name, slug = path.split("/")
    threads = f"/{owner}/{name}/repos/{slug}/threads"
    for said in FOREIGN[0], FOREIGN[3]:
        kept = {"Authorization": "Basic a2VwdA==", **said}
        alice.send("POST", threads, body, **kept).fails(403, "cross_site_request")
    alice.send("POST", threads, body, Origin=server.url).gives(201)
    ours = git()
    ours.commit()
    push = ("push", "--quiet", ours.url, "main")
    assert "403" in ours.fails("-c", "http.extraHeader=Sec-Fetch-Site: cross-site", *push)
    assert ours("ls-remote", ours.url) == ""
    ours(*push)
