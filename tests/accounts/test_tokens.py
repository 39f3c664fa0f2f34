"""/api-tokens"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import BASE62, ApiToken, new_token
from apps.accounts.rules import token_status
from tests.api import Api

FAR = "2999-01-01T00:00:00.000000Z"


def test_a_token_is_shown_once_and_only_its_digest_is_kept(api, alice):
    api(alice).post("/api-tokens").fails(422, "validation_failed")
    made = api(alice).post("/api-tokens", name="laptop").gives(201)
    text = made.pop("token")
    assert api(alice).get(f"/api-tokens/{made['uuid']}").gives() == made
    assert Api(text).get("/api-tokens/self").gives()["uuid"] == made["uuid"]
    row = ApiToken.objects.get(uuid=made["uuid"])
    assert row.digest == hashlib.sha256(text.encode()).hexdigest()
    assert text.startswith(made["token_prefix"])
    assert len(made["token_prefix"]) == 12


def test_nobody_keeps_an_answer_to_a_write_or_an_error_of_the_api(api, alice):
    """Answers may contain a token, and permissions differ between people and change."""
    for answer in (
        api(alice).post("/api-tokens", name="laptop"),
        api(alice).get("/nothing"),
        api().get("/api-tokens"),
    ):
        assert answer.response.headers["Cache-Control"] == "no-store"


def test_a_tokens_text_can_be_recognised():
    texts = {new_token() for _ in range(50)}
    assert len(texts) == 50
    for text in texts:
        assert re.fullmatch(rf"ght_[{BASE62}]{{42}}", text)


def test_a_new_token_is_active_and_its_owners(api, alice, events):
    with events("token-created") as recorded:
        made = api(alice).post("/api-tokens", name="laptop").gives(201)
    assert made["status"] == "active"
    assert (made["username"], made["user_uuid"]) == ("alice", str(alice.uuid))
    assert (made["expires_at"], made["last_used_at"], made["revoked_at"]) == (None, None, None)
    assert recorded[0].data == {"name": "laptop"}
    assert recorded[0].private_to == alice.pk


@pytest.mark.parametrize("sent", [FAR, "2999-01-01T02:00:00+02:00", "2999-01-01T00:00:00Z"])
def test_a_token_may_expire_at_a_time(api, alice, sent):
    made = api(alice).post("/api-tokens", name="laptop", expires_at=sent).gives(201)
    assert made["expires_at"] == FAR


def test_a_token_may_expire_after_a_duration(api, alice):
    made = api(alice).post("/api-tokens", name="laptop", expires_at="1h 30m").gives(201)
    left = dt.datetime.fromisoformat(made["expires_at"]) - timezone.now()
    assert dt.timedelta(minutes=89) < left <= dt.timedelta(minutes=90)


def test_a_token_made_with_a_token_ends_no_later_than_that_one(api, alice, sam):
    for parent in (alice, sam):
        made = api(parent).post("/api-tokens", name="short", expires_at="1d").gives(201)
        caller = Api(made["token"])
        for expiry in ({}, {"expires_at": None}, {"expires_at": FAR}, {"expires_at": "2d"}):
            for whose in {parent.username, alice.username}:
                child = caller.post("/api-tokens", name="x", username=whose, **expiry).gives(201)
                assert child["expires_at"] == made["expires_at"]
                told = Api(child["token"]).get("/api-tokens/self").gives()
                assert told["expires_at"] == made["expires_at"]
        sooner = caller.post("/api-tokens", name="x", expires_at="1h").gives(201)
        assert sooner["expires_at"] < made["expires_at"]
        grandchild = Api(sooner["token"]).post("/api-tokens", name="x", expires_at="1d").gives(201)
        assert grandchild["expires_at"] == sooner["expires_at"]


@pytest.mark.parametrize("sent", ["", "0s", "2020-01-01T00:00:00Z", "2999-01-01T00:00:00", 3600])
def test_a_token_expires_in_the_future_or_never(api, alice, sent):
    refused = api(alice).post("/api-tokens", name="laptop", expires_at=sent)
    assert refused.fails(422, "validation_failed").startswith("expires_at: ")
    made = api(alice).post("/api-tokens", name="laptop", expires_at=None).gives(201)
    assert made["expires_at"] is None


def test_staff_makes_tokens_for_others_and_nobody_else_does(api, alice, carol, sam, events):
    body = {"name": "laptop", "username": "ALICE"}
    api(carol).post("/api-tokens", name="x", username="nobody").fails(403, "staff_required")
    api(sam).post("/api-tokens", name="x", username="nobody").fails(422, "user_not_found")
    with events("token-created"):
        made = api(sam).post("/api-tokens", **body).gives(201)
    assert Api(made["token"]).get("/api-tokens/self").gives()["username"] == "alice"
    assert api(alice).post("/api-tokens", **body).gives(201)["username"] == "alice"
    assert api(alice).post("/api-tokens", name="x", username=None).gives(201)["username"] == "alice"


def test_a_list_shows_ones_own_tokens_or_those_that_staff_asks_for(api, make, alice, carol, sam):
    assert {row["username"] for row in rows(api(alice), "")} == {"alice"}
    assert rows(api(alice), "?username=Alice") == rows(api(alice), "")
    api(carol).get("/api-tokens?username=nobody").fails(403, "staff_required")
    assert {row["username"] for row in rows(api(sam), "?username=alice")} == {"alice"}
    assert {row["username"] for row in rows(api(sam), "")} == {"sam"}


def rows(caller: Api, query: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = caller.get(f"/api-tokens{query}").gives()["results"]
    return results


@pytest.fixture
def three(api, alice) -> Api:
    """alice with tokens b, C and a, created in this order. b and C expire."""
    caller: Api = api(alice)
    for name, expires_at in (("b", "2d"), ("C", "1d"), ("a", None)):
        caller.post("/api-tokens", name=name, expires_at=expires_at).gives(201)
    ApiToken.objects.filter(name="tests").update(name="z")
    return caller


ORDERED = {
    "": "aCbz",
    "?ordering=-created_at": "aCbz",
    "?ordering=created_at": "zbCa",
    "?ordering=expires_at": "Cbza",
    "?ordering=-expires_at": "bCaz",
    "?ordering=last_used_at": "zbCa",
    "?ordering=-last_used_at": "zaCb",
}


@pytest.mark.parametrize(("query", "order"), ORDERED.items())
def test_tokens_come_in_the_order_asked_for_and_ties_by_age(three, query, order):
    assert "".join(row["name"] for row in rows(three, query)) == order


def test_tokens_are_found_by_their_name_ignoring_case(three):
    assert [row["name"] for row in rows(three, "?name=c")] == ["C"]
    assert rows(three, "?name=") == rows(three, "")
    assert rows(three, "?name=%25") == []


def test_a_revoked_token_ends_at_once_and_for_good(api, make, alice, events):
    made = api(alice).post("/api-tokens", name="laptop").gives(201)
    url = f"/api-tokens/{made['uuid']}"
    with events("token-revoked"):
        first = api(alice).put(f"{url}/revoke").gives()
    assert (first["status"], first["revoked_at"] is None) == ("revoked", False)
    with events():
        assert api(alice).put(f"{url}/revoke").gives() == first
    Api(made["token"]).get("/teams").fails(401, "invalid_token")
    assert api(alice).get(url).gives() == first


def test_a_deleted_token_is_gone(api, alice, events):
    made = api(alice).post("/api-tokens", name="laptop").gives(201)
    url = f"/api-tokens/{made['uuid']}"
    with events("token-deleted"):
        assert Api(made["token"]).delete(url).gives(204) is None
    for answer in (api(alice).get(url), api(alice).delete(url), api(alice).put(f"{url}/revoke")):
        answer.fails(404, "not_found")
    Api(made["token"]).get("/teams").fails(401, "invalid_token")


def test_a_token_may_revoke_itself(make, alice):
    own = Api(make.token(alice))
    uuid = own.get("/api-tokens/self").gives()["uuid"]
    assert own.put(f"/api-tokens/{uuid}/revoke").gives()["status"] == "revoked"
    own.get("/api-tokens/self").fails(401, "invalid_token")


def test_a_use_is_noted_at_most_once_a_minute(make, alice):
    own = Api(make.token(alice))
    first = own.get("/api-tokens/self").gives()["last_used_at"]
    assert own.get("/api-tokens/self").gives()["last_used_at"] == first
    earlier = timezone.now() - dt.timedelta(minutes=1)
    alice.tokens.update(last_used_at=earlier)
    assert own.get("/api-tokens/self").gives()["last_used_at"] > first


def test_of_two_calls_that_come_at_once_one_notes_the_use(alice):
    first, second = (ApiToken.objects.get(user=alice) for _ in range(2))
    first.touch()
    noted = ApiToken.objects.get(user=alice).last_used_at
    second.touch()
    assert noted is not None
    assert ApiToken.objects.get(user=alice).last_used_at == noted


MOVES = {
    ("active", "use"): (200, "active", []),
    ("expired", "use"): (401, "expired", []),
    ("revoked", "use"): (401, "revoked", []),
    ("deleted", "use"): (401, None, []),
    ("active", "revoke"): (200, "revoked", ["token-revoked"]),
    ("expired", "revoke"): (200, "revoked", ["token-revoked"]),
    ("revoked", "revoke"): (200, "revoked", []),
    ("deleted", "revoke"): (404, None, []),
    ("active", "delete"): (204, None, ["token-deleted"]),
    ("expired", "delete"): (204, None, ["token-deleted"]),
    ("revoked", "delete"): (204, None, ["token-deleted"]),
    ("deleted", "delete"): (404, None, []),
}


@pytest.mark.parametrize(("state", "move"), MOVES)
def test_a_token_goes_from_state_to_state(api, alice, events, state, move):
    """permissions.csv covers other callers than the owner."""
    made = api(alice).post("/api-tokens", name="laptop").gives(201)
    url, row = f"/api-tokens/{made['uuid']}", ApiToken.objects.filter(uuid=made["uuid"])
    if state == "expired":
        row.update(expires_at=timezone.now())
    if state == "revoked":
        api(alice).put(f"{url}/revoke").gives()
    if state == "deleted":
        api(alice).delete(url).gives(204)
    calls = {
        "use": lambda: Api(made["token"]).get("/api-tokens/self"),
        "revoke": lambda: api(alice).put(f"{url}/revoke"),
        "delete": lambda: api(alice).delete(url),
    }
    status, after, kinds = MOVES[state, move]
    with events(*kinds):
        assert calls[move]().status == status
    token = row.first()
    assert (token and token_status(token)) == after
