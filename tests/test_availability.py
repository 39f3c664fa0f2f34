"""/check-username, /check-team-slug, /{owner}/check-repo-slug."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.core.availability import NUMBERS, REPO_SLUGS, TEAM_SLUGS, USERNAMES
from apps.core.slugs import TEAM_SLUG_MAX, USERNAME_MAX
from tests.api import Api
from tests.factories import TeamFactory, UserFactory
from tests.texts import texts

YES = (200, True, None)


def asked(api: Api, path: str, name: str | None) -> tuple[int, bool, str | None]:
    parameter = "username" if "username" in path else "slug"
    answer = api.get(path if name is None else f"{path}?{parameter}={quote(name)}")
    body = answer.json or {}
    return answer.status, body["available"], body["suggestion"]


USERNAME_CASES = {
    "fresh": YES,
    "Fresh.Name": YES,
    "alice": (409, False, "alice-2"),
    "ALICE": (409, False, "ALICE-2"),
    "Bob": (409, False, "Bob-4"),
    "self": (409, False, "self-2"),
    "two words": (409, False, "two-words"),
    "--Ann--Lee__": (409, False, "Ann-Lee"),
    "Zoë Müller": (409, False, "Zoe-Muller"),
    "x" * 50: (409, False, "x" * 39),
    "李雷": (409, False, None),
    "\0": (409, False, None),
    "": (409, False, None),
    None: (409, False, None),
}


@pytest.mark.parametrize(("name", "outcome"), USERNAME_CASES.items())
def test_a_username_can_be_had_or_the_nearest_one_is_named(api, alice, name, outcome):
    for taken in ("bob", "bob-2", "BOB-3"):
        UserFactory.create(username=taken)
    assert asked(api(), "/check-username", name) == outcome
    assert asked(api(alice), "/check-username", name) == outcome


SLUG_CASES = {
    "fresh": YES,
    "acme": (409, False, "acme-2"),
    "Fresh": (409, False, "fresh"),
    "new": (409, False, "new-2"),
    "a..b": (409, False, "a.b"),
    "": (409, False, None),
}


@pytest.mark.parametrize(("slug", "outcome"), SLUG_CASES.items())
def test_a_team_slug_can_be_had_or_the_nearest_one_is_named(api, acme, slug, outcome):
    assert asked(api(), "/check-team-slug", slug) == outcome


REPO_CASES = {
    "fresh": YES,
    "a..b_": YES,
    "___": YES,
    "api": (409, False, "api-2"),
    "API": (409, False, "api-2"),
    "site.git": (409, False, "site"),
    "site.git.lock": (409, False, "site"),
    ".git": (409, False, None),
    "..": (409, False, None),
    "self": (409, False, "self-2"),
    None: (409, False, None),
}


@pytest.mark.parametrize(("slug", "outcome"), REPO_CASES.items())
def test_a_repo_slug_can_be_had_in_its_owners_space(api, repo, alice, slug, outcome):
    assert asked(api(alice), f"/{repo.owner.path}/check-repo-slug", slug) == outcome


def test_a_repo_slug_is_taken_in_one_space_only(api, team_repo, alice):
    assert asked(api(alice), "/users/alice/check-repo-slug", "api") == YES


def test_who_may_not_see_a_space_learns_nothing_of_its_slugs(api, team_repo, alice, carol):
    for path in ("/teams/acme", "/users/alice"):
        for slug in ("api", "fresh"):
            api(carol).get(f"{path}/check-repo-slug?slug={slug}").fails(403, "forbidden")
    api(carol).get("/teams/nobody/check-repo-slug").fails(404, "not_found")


def test_a_token_that_is_no_good_is_refused_where_none_is_needed(db):
    for path in ("/check-username?username=x", "/check-team-slug?slug=x", "/suggest-users"):
        Api("ght_no").get(path).fails(401, "invalid_token")


@pytest.mark.parametrize("name", ["fresh", "alice", "self", "two words", "x" * 200])
def test_a_check_is_one_query(api, alice, name):
    for path, table in (("/check-username", "accounts_user"), ("/check-team-slug", "teams_team")):
        with CaptureQueriesContext(connection) as queries:
            asked(api(), path, name)
        sent = [one["sql"] for one in queries.captured_queries if "site_" not in one["sql"]]
        assert len(sent) == 1 and table in sent[0]


def test_a_name_that_is_taken_many_times_over_still_has_a_neighbour(api, db):
    User.objects.bulk_create(
        User(username=name, username_key=name)
        for name in ["eve", *(f"eve-{n}" for n in range(2, 100))]
    )
    assert asked(api(), "/check-username", "eve") == (409, False, "eve-100")


@given(texts(max_size=60), st.integers(0, len(NUMBERS)))
def test_what_is_suggested_can_be_had(text, gone):
    for naming in (USERNAMES, TEAM_SLUGS, REPO_SLUGS):
        answer = naming.answer(text, lambda names: names[:gone])
        found = text if answer.data["available"] else answer.data["suggestion"]
        assert (answer.status_code == 200) == answer.data["available"]
        if found is not None:
            assert naming.problem(found) is None
        elif not gone:
            assert naming.problem(text) is not None
            assert not re.search("[A-Za-z0-9]", text)


def test_a_suggestion_is_no_longer_than_a_name_may_be(api, alice):
    UserFactory.create(username="x" * USERNAME_MAX)
    TeamFactory.create(slug="y" * TEAM_SLUG_MAX, owner=alice)
    assert asked(api(), "/check-username", "x" * 39) == (409, False, "x" * 37 + "-2")
    assert asked(api(), "/check-team-slug", "y" * 64) == (409, False, "y" * 62 + "-2")
