"""/suggest-users."""

from __future__ import annotations

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actions import confirm_email, deactivate_user, update_user
from apps.accounts.models import User
from apps.accounts.proofs import address_proof
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of

ADDRESS = "carol@example.org"


def names(api: Api, query: str) -> list[str]:
    return [one["username"] for one in api.get(f"/suggest-users?{query}").gives()["results"]]


@pytest.fixture
def crowd(carol):
    """carol, also named Dr. Ada and known by an address, and a dozen similar people."""
    update_user(principal=principal_of(carol), user=carol, display_name="Dr. Ada")
    confirm_email(principal=principal_of(carol), proof=address_proof(carol, ADDRESS))
    for number in range(12):
        UserFactory.create(username=f"Ada{number:02}")


def test_a_stranger_is_shown_five_whose_name_begins_so(api, crowd):
    assert names(api(), "") == names(api(), "name=") == names(api(), "name=a") == []
    assert names(api(), "name=aD") == [f"Ada0{number}" for number in range(5)]
    assert names(api(), "name=dr.%20a") == ["carol"]
    assert names(api(), "name=da0") == names(api(), "name=%25%25") == names(api(), "name=a_a") == []


def test_whoever_is_known_is_shown_ten_and_finds_by_one_letter(api, crowd, alice):
    assert len(names(api(alice), "name=ada")) == 10
    assert names(api(alice), "name=D") == names(api(alice), "name=c") == ["carol"]


def test_an_address_finds_its_person_exactly_and_only_for_the_known(api, crowd, alice):
    assert names(api(), f"email={ADDRESS}") == []
    assert names(api(alice), "email=carol") == names(api(alice), "email=") == []
    assert names(api(alice), f"email={ADDRESS.upper()}") == ["carol"]
    assert names(api(alice), f"email={ADDRESS}&name=ali") == ["carol", "alice"]


def test_no_address_is_returned_and_no_inactive_person(api, crowd, carol, sam):
    answer = api(sam).get(f"/suggest-users?email={ADDRESS}&name=car").gives()
    assert set(answer["results"][0]) == {"uuid", "username", "display_name", "is_bot", "is_member"}
    deactivate_user(principal=principal_of(sam), user=carol)
    assert names(api(sam), f"email={ADDRESS}&name=car") == names(api(), "name=car") == []


def test_who_is_in_a_team_is_told_to_its_members(api, acme, alice, bob, sam):
    def inside(caller: Api) -> list[bool]:
        rows = caller.get("/suggest-users?name=bob&team_slug=ACME").gives()["results"]
        return [one["is_member"] for one in rows]

    api(alice).get("/suggest-users?name=bob&team_slug=nobody").fails(404, "not_found")
    assert inside(api(alice)) == inside(api(sam)) == [True]
    assert inside(api()) == [False]
    [found] = api(bob).get("/suggest-users?name=b").json["results"]
    assert not found["is_member"]


def statements(api: Api, query: str) -> list[str]:
    """The queries about people, without the searched texts."""
    with CaptureQueriesContext(connection) as asked:
        names(api, query)
    sent = [one["sql"] for one in asked.captured_queries if "accounts_user" in one["sql"]]
    return [re.sub(r"'[^']*'", "?", sql) for sql in sent]


def test_a_stranger_cannot_tell_by_the_time_who_is_here(api, crowd):
    """No address is looked up, and a hit takes as many statements as a miss."""
    hit, miss = (statements(api(), f"name={name}") for name in ("carol", "nobody"))
    assert hit == miss and len(hit) == 2
    assert statements(api(), f"email={ADDRESS}") == statements(api(), "email=nobody@x.org") == []


def test_a_prefix_is_looked_up_in_an_index(db):
    User.objects.bulk_create(
        User(username=f"u{n}", username_key=f"u{n}", display_name_key=f"d{n}") for n in range(2000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE accounts_user" if connection.vendor == "postgresql" else "ANALYZE")
    looked_up = re.compile(r"SEARCH accounts_user USING INDEX|Index Cond|Bitmap Index Scan")
    for name, text in (("username", "u123"), ("display_name", "d123")):
        rows = User.objects.all().beginning(name, text)[:5]
        plan = json.dumps(rows.explain())
        assert looked_up.search(plan), plan
        assert len(rows) == 5
