"""The live stream with the session of a signed-in browser: opening it, and its end."""

from __future__ import annotations

from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import count
from typing import Any

import pytest

from tests.events.conftest import ON_SERVE
from tests.tail import follow, opened
from tests.web.form_client import FormClient
from tests.web.page_client import PASSWORD

pytestmark = ON_SERVE
SAME_ORIGIN: dict[str, Any] = {"Sec_Fetch_Site": "same-origin"}
MAKE = """
from apps.accounts.actions import create_user
for n in range(8):
    create_user(principal=None, username=f"visitor{{n}}", password={password!r})
"""
BOSS = """
from apps.accounts.actions import create_user
from apps.accounts.models import User
if not User.objects.filter(username="boss").exists():
    create_user(principal=None, username="boss", is_staff=True)
"""
people = count()


@pytest.fixture(scope="module")
def visitors(server):
    server.run(MAKE.format(password=PASSWORD))


def signed_in(server, name: str) -> FormClient:
    client = FormClient(server).send("/signin", username=name, password=PASSWORD)
    assert client.status == 303
    return client


@pytest.fixture
def name(server, visitors) -> str:
    """A person whom no other test uses."""
    return f"visitor{next(people)}"


@pytest.fixture
def visitor(server, name) -> FormClient:
    """A browser in which this person has signed in."""
    return signed_in(server, name)


def cookie_of(client: FormClient) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def test_the_stream_opens_for_pages_of_this_site_alone(server, visitor):
    cookie = cookie_of(visitor)
    for said in (SAME_ORIGIN, {}):
        with opened(server, "", "scope=self", Cookie=cookie, **said):
            pass
    others: list[dict[str, Any]] = [
        {"Sec_Fetch_Site": site} for site in ("cross-site", "same-site", "none")
    ]
    for said in (*others, {"Origin": server.url}, {"Origin": "https://evil.example"}):
        with follow(server, "", "scope=self", Cookie=cookie, **said) as stream:
            stream.refusal().fails(401, "not_authenticated")
    with follow(server, "", "scope=self", Cookie="sessionid=x", **SAME_ORIGIN) as stream:
        stream.refusal().fails(401, "not_authenticated")
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    assert server.api().get("/teams", **headers).status == 401
    connection: HTTPConnection = server.connect()
    connection.request("HEAD", "/api/v1/tail-events?scope=self", headers=headers)
    assert connection.getresponse().status == 401
    connection.close()


def test_a_stream_ends_when_another_password_has_ended_its_session(server, visitor, name):
    with opened(server, "", "scope=self", Cookie=cookie_of(visitor), **SAME_ORIGIN) as stream:
        other = signed_in(server, name)
        new = {"password": "correct horse staple", "again": "correct horse staple"}
        other.send("/settings/password", current=PASSWORD, **new)
        assert other.status == 303
        assert stream.next() is None
    with follow(server, "", "scope=self", Cookie=cookie_of(visitor), **SAME_ORIGIN) as stream:
        stream.refusal().fails(401, "not_authenticated")


@pytest.mark.parametrize("end", ["/signout", "/signin"])
def test_a_stream_ends_with_its_session_and_those_of_other_sessions_go_on(
    server, visitor, name, end
):
    """The stream ends at once: the periodic check comes after a heartbeat, which fails the test."""
    other = signed_in(server, name)
    with ExitStack() as stack:
        ending, going_on = [
            stack.enter_context(opened(server, "", "scope=self", Cookie=one, **SAME_ORIGIN))
            for one in (cookie_of(visitor), cookie_of(other))
        ]
        visitor.send(end, username=name, password=PASSWORD)
        assert visitor.status == 303
        assert ending.next() is None
        other.send("/new/team", name="Mine", slug=name)
        assert going_on.kinds(1) == ["team-created"]


def test_a_stream_ends_when_its_reader_may_read_no_more(server, visitor, name, followed):
    alice = server.api("alice")
    alice.post(f"{followed.path}/members", username=name, role="viewer").gives(201)
    query, cookie = f"{followed.repo_scope}&html=true", cookie_of(visitor)
    with opened(server, "", query, Cookie=cookie, **SAME_ORIGIN) as stream:
        followed.describe("Seen")
        assert stream.kinds(1) == ["repo-updated"]
        alice.delete(f"{followed.path}/members/{name}").gives(204)
        assert stream.next() is None


def test_a_stream_ends_with_a_session_that_the_api_ends(server, visitor, name):
    """At once, although the browser asks for nothing; the stream of a token goes on."""
    api = server.api(name)
    for path in ("/users/self/sessions/{uuid}", f"/users/{name}/sessions"):
        client = signed_in(server, name)
        sessions = api.get("/users/self/sessions").gives()["results"]
        with (
            opened(server, "", "scope=self", Cookie=cookie_of(client), **SAME_ORIGIN) as ending,
            opened(server, name, "scope=self") as going_on,
        ):
            api.delete(path.format(uuid=sessions[0]["uuid"])).gives(204)
            assert ending.next() is None
            assert going_on.kinds(1) == ["user-updated"]


def test_off_boarding_ends_the_streams_of_sessions_and_tokens(server, visitor, name):
    server.run(BOSS)
    server.token(name)  # its event comes before the streams
    with (
        opened(server, "", "scope=self", Cookie=cookie_of(visitor), **SAME_ORIGIN) as by_session,
        opened(server, name, "scope=self") as by_token,
    ):
        server.api("boss").put(f"/users/{name}/offboard", confirm=name).gives()
        assert by_session.next() is None
        assert by_token.next() is None
    for said in ({"Cookie": cookie_of(visitor), **SAME_ORIGIN}, {}):
        with follow(server, "" if said else name, "scope=self", **said) as stream:
            assert stream.refusal().status == 401
