"""/api-tokens/{uuid}/rotate"""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.authentication import principal_of, token_of
from apps.accounts.models import ApiToken
from tests.api import Api
from tests.plans import planned


@pytest.fixture
def made(api, alice, team_repo):
    """A limited token of alice, as its record with its text."""
    scope = {"permission": "write", "repo_paths": ["teams/acme/api"], "expires_at": "30 days"}
    return api(alice).post("/api-tokens", name="ci", **scope).gives(201)


@pytest.fixture
def rotate(api, alice, made):
    """Rotates that token, and returns the answer."""
    return lambda **body: api(alice).put(f"/api-tokens/{made['uuid']}/rotate", **body)


def works(text: str) -> bool:
    return bool(Api(text).get("/api-tokens/self").status == 200)


def test_a_rotation_changes_the_text_and_nothing_else(made, rotate, events):
    Api(made["token"]).get("/api-tokens/self").gives()
    used_at = ApiToken.objects.get(uuid=made["uuid"]).last_used_at
    with events("token-rotated") as recorded:
        rotated = rotate().gives()
    assert rotated["token"].startswith(rotated["token_prefix"])
    new = {name: rotated[name] for name in ("token", "token_prefix", "last_used_at")}
    assert rotated == {**made, **new}
    assert ApiToken.objects.get(uuid=made["uuid"]).last_used_at == used_at
    assert recorded[0].data == {"name": "ci"}
    assert recorded[0].private_to is not None
    assert (works(made["token"]), works(rotated["token"])) == (False, True)
    used = Api(rotated["token"]).get("/teams/acme/repos/api").gives()
    assert used["caller_permission"] == "write"


def test_the_old_text_is_valid_as_long_as_the_caller_says(made, rotate):
    rotated = rotate(keep_old="1 hour").gives()
    assert works(made["token"]) and works(rotated["token"])
    ApiToken.objects.filter(uuid=made["uuid"]).update(former_until=timezone.now())
    assert (works(made["token"]), works(rotated["token"])) == (False, True)


def test_a_text_before_the_old_one_ends_at_once(made, rotate):
    first, second = (rotate(keep_old="1 hour").gives()["token"] for _ in range(2))
    assert [works(text) for text in (made["token"], first, second)] == [False, True, True]


def test_a_rotation_in_haste_ends_all_older_texts(made, rotate):
    first, second = rotate(keep_old="1 hour").gives()["token"], rotate().gives()["token"]
    assert [works(text) for text in (made["token"], first, second)] == [False, False, True]


@pytest.mark.parametrize("keep_old", ["73 hours", "1", "", None, 5, "2999-01-01T00:00:00Z"])
def test_the_overlap_is_a_duration_of_at_most_72_hours(made, rotate, events, keep_old):
    with events():
        rotate(keep_old=keep_old).fails(422, "validation_failed")
    assert works(made["token"])


def test_a_token_that_has_ended_has_no_new_text(api, alice, made, rotate):
    for end in ("revoked_at", "expires_at"):
        ApiToken.objects.filter(uuid=made["uuid"]).update(**{end: timezone.now()})
        rotate().fails(409, "invalid_transition")
        ApiToken.objects.filter(uuid=made["uuid"]).update(**{end: None})


def test_the_old_text_ends_with_its_token(api, alice, made, rotate):
    text = rotate(keep_old="72 hours").gives()["token"]
    api(alice).put(f"/api-tokens/{made['uuid']}/revoke").gives()
    assert not works(made["token"]) and not works(text)


def test_a_token_gets_no_text_that_outlives_it(api, make, alice):
    """Neither of another token, nor of itself by its old text."""
    brief = api(alice).post("/api-tokens", name="brief", expires_at="1 hour").gives(201)
    own = api(alice).get("/api-tokens/self").gives()["uuid"]
    by = Api(brief["token"])
    by.put(f"/api-tokens/{own}/rotate").fails(403, "role_required")
    by.put(f"/api-tokens/{brief['uuid']}/rotate", keep_old="1m").gives()
    by.put(f"/api-tokens/{brief['uuid']}/rotate").fails(403, "role_required")
    ends = by.post("/api-tokens", name="child").gives(201)["expires_at"]
    assert dt.datetime.fromisoformat(ends) < timezone.now() + dt.timedelta(minutes=1)


def test_a_token_without_all_rights_rotates_nothing(made):
    by = Api(made["token"])
    by.put(f"/api-tokens/{made['uuid']}/rotate").fails(403, "token_scope")


def test_an_open_stream_ends_with_the_text_that_opened_it(made, rotate):
    former, credential = made["token"], principal_of(made["token"]).credential
    assert credential is not None
    assert credential.holder() is not None
    rotate(keep_old="1 hour").gives()
    assert credential.holder() is not None
    now = principal_of(former)
    assert now.expires_at is not None
    assert now.expires_at < timezone.now() + dt.timedelta(hours=1)
    rotate().gives()
    assert credential.holder() is None


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a plan of SQLite")
def test_a_token_is_found_along_the_indexes_of_both_texts(make, alice):
    with planned("former_digest") as steps:
        token_of(make.token(alice))
    assert not [step for step in steps if step.startswith("SCAN")]
