"""Authentication by bearer and basic tokens, and by sessions of streams."""

from __future__ import annotations

import base64
import re

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.actions import delete_token, revoke_token
from apps.accounts.authentication import Session
from tests.api import Answer, Api
from tests.factories import UserFactory
from tests.principals import principal_of


def call(authorization: str) -> Answer:
    api = Api(None)
    api.headers["Authorization"] = authorization
    return api.get("/api-tokens/self")


def basic(username: str, token: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{token}".encode()).decode()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_a_bearer_token_lets_its_owner_in(make, alice, scheme):
    assert call(f"{scheme} {make.token(alice)}").gives()["username"] == "alice"


@pytest.mark.parametrize("username", ["", "alice", "ALICE"])
@pytest.mark.parametrize("scheme", ["Basic", "basic"])
def test_basic_takes_the_token_as_its_password(make, alice, username, scheme):
    sent = basic(username, make.token(alice)).replace("Basic", scheme)
    assert call(sent).gives()["username"] == "alice"


@pytest.mark.parametrize("username", ["bob", "nobody", "alice "])
def test_basic_refuses_somebody_elses_name(make, alice, bob, username):
    call(basic(username, make.token(alice))).fails(401, "invalid_token")


def test_without_a_token_the_way_in_is_told(api):
    answer = api().get("/teams")
    assert "Bearer" in answer.fails(401, "not_authenticated")
    assert answer.header("WWW-Authenticate") == (
        'Bearer realm="Guildhall", Basic realm="Guildhall"'
    )


def test_unknown_revoked_expired_and_deleted_tokens_are_one_answer(make, alice, bob, carol, sam):
    revoked, expired, deleted = (person.tokens.get() for person in (alice, bob, carol))
    revoke_token(principal=principal_of(alice), token=revoked)
    bob.tokens.filter(pk=expired.pk).update(expires_at=timezone.now())
    delete_token(principal=principal_of(carol), token=deleted)
    texts = [make.token(person) for person in (alice, bob, carol)]
    texts += ["ght_unknown", make.token(sam)[:-1], make.token(sam) + "x", make.token(sam).upper()]
    details = {call(f"Bearer {text}").fails(401, "invalid_token") for text in texts}
    assert len(details) == 1


def statements(authorization: str) -> list[str]:
    """The SQL statements on tables of accounts, with their parameters replaced by `?`."""
    with CaptureQueriesContext(connection) as queries:
        call(authorization).fails(401, "invalid_token")
    statements = [query["sql"] for query in queries.captured_queries]
    return [re.sub("'[^']*'", "?", sql) for sql in statements if '"accounts_' in sql]


def test_the_time_that_a_refusal_takes_does_not_tell_what_a_token_was(make, alice, bob, carol):
    """The same statement runs for tokens that are unknown, revoked, expired or another person's."""
    revoke_token(principal=principal_of(alice), token=alice.tokens.get())
    bob.tokens.update(expires_at=timezone.now())
    unknown = statements("Bearer ght_unknown")
    for person in (alice, bob):
        assert statements(f"Bearer {make.token(person)}") == unknown
    assert statements(basic("alice", make.token(carol))) == unknown
    assert len(unknown) == 1
    assert carol.tokens.get().last_used_at is None, "a refusal is no use"


def test_an_inactive_person_is_refused_with_every_token(make, api, alice):
    alice.is_active = False
    alice.save()
    answer = call(f"Bearer {make.token(alice)}")
    answer.fails(401, "inactive_user")
    assert "Basic" in answer.header("WWW-Authenticate")
    call(basic("", make.token(alice))).fails(401, "inactive_user")
    assert alice.tokens.get().last_used_at is None


def test_a_session_cookie_is_no_way_into_the_api(client, sam):
    client.force_login(sam)
    assert client.get("/api/v1/teams").status_code == 401


def test_a_session_has_its_person_until_it_ends_by_whatever_ends_it(db):
    def session() -> Session:
        browser = Client()
        browser.force_login(person)
        return Session(str(browser.session.session_key))

    person = UserFactory.create(username="ada")
    first, second, third = session(), session(), session()
    assert first.holder() == person
    SessionStore(first.key).flush()
    assert (first.holder(), Session("").holder(), second.holder()) == (None, None, person)
    person.set_password("another")
    person.save()
    fourth = session()
    assert (second.holder(), third.holder(), fourth.holder()) == (None, None, person)
    person.is_active = False
    person.save()
    assert fourth.holder() is None
