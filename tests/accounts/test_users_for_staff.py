"""People as staff sees them: filters of `/users`, `PUT /users/{username}`, teams, repositories and
tokens of a person.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import User
from tests.api import Api
from tests.factories import UserFactory
from tests.races import at_once


def names(page):
    return [user["username"] for user in page.gives()["results"]]


@pytest.fixture
def crowd(sam):
    """People who were seen at different times. Nobody has seen newt and olga since the upgrade."""
    now = timezone.now()
    for name, days, active in (("anna", 1, True), ("bert", 200, True), ("cora", 200, False)):
        seen = now - dt.timedelta(days=days)
        UserFactory.create(username=name, last_seen_at=seen, is_active=active)
    UserFactory.create(username="newt")
    past = now - dt.timedelta(days=300)
    UserFactory.create(username="olga", created_at=past)
    UserFactory.create(username="pia", created_at=past, last_login=now - dt.timedelta(days=2))


@pytest.mark.parametrize(
    ("query", "people"),
    [
        ("is_active=false", ["cora"]),
        ("is_staff=true", ["sam"]),
        ("is_staff=false&is_active=true&search=bert", ["bert"]),
        ("last_seen_before=90 days", ["bert", "cora", "olga"]),
        ("last_seen_before=90 days&is_active=true", ["bert", "olga"]),
        ("last_seen_after=90 days", ["anna", "pia", "sam"]),
        ("last_seen_before=2020-01-01T00:00:00Z", []),
    ],
)
def test_staff_filters_people(api, sam, crowd, query, people):
    assert names(api(sam).get(f"/users?{query}")) == people


@pytest.mark.parametrize(
    "query",
    ["is_active=no", "is_staff=", "last_seen_before=yesterday", "last_seen_after=2020-01-01"],
)
def test_a_malformed_filter_is_refused(api, sam, query):
    api(sam).get(f"/users?{query}").fails(422, "validation_failed")


def test_only_the_person_and_staff_know_when_they_were_seen(api, alice, bob, sam):
    api(bob).get("/users/self").gives()
    api(alice).get("/users?last_seen_before=1 day").fails(403, "staff_required")
    assert "last_seen_at" not in api(alice).get("/users/bob").gives()
    seen = api(sam).get("/users/bob").gives()["last_seen_at"]
    assert seen and api(bob).get("/users/self").gives()["last_seen_at"] == seen


@pytest.mark.parametrize("permission", ["read", "write"])
def test_a_token_without_the_powers_of_staff_shows_no_address_of_others(make, bob, sam, permission):
    User.objects.filter(pk=bob.pk).update(email="bob@example.org", email_key="bob@example.org")
    reading = Api(make.scoped_token(sam, permission=permission))
    rows = reading.get("/users").gives()["results"]
    for row in (reading.get("/users/bob").gives(), *[one for one in rows if not one["is_staff"]]):
        assert not {"email", "last_seen_at"} & set(row)
    assert "email" in reading.get("/users/self").gives()
    full = Api(make.scoped_token(sam))
    assert full.get("/users/bob").gives()["email"] == "bob@example.org"


def test_staff_closes_an_account_and_opens_it_again(api, bob, sam, alice, events):
    with events():
        api(alice).put("/users/bob", is_active=False).fails(403, "staff_required")
        api(sam).put("/users/bob", is_active="no").fails(422, "validation_failed")
        api(sam).put("/users/nobody", is_active=False).fails(404, "not_found")
    with events("user-deactivated"):
        assert api(sam).put("/users/bob", is_active=False).gives()["is_active"] is False
    api(bob).get("/users/self").fails(401, "inactive_user")
    with events("user-updated"):
        api(sam).put("/users/bob", is_active=True).gives()
    api(bob).get("/users/self").gives()


def test_both_fields_change_or_none(api, bob, sam, events):
    with events():
        api(sam).put("/users/sam", is_active=False, is_staff=True).fails(409, "invalid_transition")
    with events("user-updated", "user-deactivated"):
        changed = api(sam).put("/users/bob", is_active=False, is_staff=True).gives()
    assert (changed["is_active"], changed["is_staff"]) == (False, True)


def test_the_last_active_member_of_staff_stays(api, sam):
    UserFactory.create(username="tess", staff=True, is_active=False)
    api(sam).put("/users/sam", is_staff=False).fails(409, "invalid_transition")
    api(sam).put("/users/sam", is_active=False).fails(409, "invalid_transition")


@pytest.mark.django_db(transaction=True)
def test_of_two_members_of_staff_who_remove_each_other_one_remains(api, make, sam):
    tess = make.with_token(UserFactory.create(username="tess", staff=True))
    by_sam, by_tess = api(sam), api(tess)
    at_once(
        lambda: by_sam.put("/users/tess", is_staff=False),
        lambda: by_tess.put("/users/sam", is_staff=False),
    )
    assert User.objects.filter(is_staff=True, is_active=True).count() == 1


def test_the_teams_of_a_person_have_their_role(api, acme, alice, bob, sam):
    api(alice).get("/users/bob/teams").fails(403, "staff_required")
    [team] = api(sam).get("/users/bob/teams").gives()["results"]
    assert (team["slug"], team["role"], team["caller_role"]) == ("acme", "member", None)
    [team] = api(bob).get("/users/bob/teams").gives()["results"]
    assert team["caller_role"] == "member"


def test_the_repositories_of_a_person_are_listed_for_staff(api, make, alice, bob, sam):
    make.repo(bob, "own", by=bob)
    assert api(alice).get("/users/bob/repos").gives()["results"] == []
    assert [repo["slug"] for repo in api(sam).get("/users/bob/repos").gives()["results"]] == ["own"]


def test_the_tokens_of_a_person_have_no_text(api, make, alice, bob, sam):
    text = make.token(bob)
    api(alice).get("/users/bob/tokens").fails(403, "staff_required")
    tokens = api(sam).get("/users/bob/tokens").gives()["results"]
    assert tokens and text not in str(tokens)
    assert {token["username"] for token in tokens} == {"bob"}
