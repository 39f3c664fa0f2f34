"""`/rate-limits` and `/rate-limits/{uuid}`: for staff, one for each scope."""

import pytest
from jsonschema_rs import is_valid

from apps.site.models import RateLimit
from apps.site.rules import known_rate_scopes
from tests.core.test_openapi import DIALECT
from tests.factories import UserFactory
from tests.races import at_once
from tests.routes import routed
from tests.site.fresh import first_rate_limits

WRITE = {"scope": "write", "max_requests": 100, "window_seconds": 60, "is_enabled": True}


def test_a_fresh_install_guards_signing_in_and_up_and_nothing_else(api, sam):
    first_rate_limits()
    found = api(sam).get("/rate-limits").gives()["results"]
    kept = [(one["scope"], one["max_requests"], one["window_seconds"]) for one in found]
    assert kept == [("login", 20, 60), ("signup", 20, 60)]
    assert all(one["is_enabled"] and one["updated_by_username"] is None for one in found)


def test_staff_creates_a_rate_limit(api, sam, events):
    first_rate_limits()
    with events("rate-limit-created") as seen:
        made = api(sam).post("/rate-limits", **WRITE).gives(201)
    assert seen[0].data == WRITE and seen[0].site == 1
    assert {name: made[name] for name in WRITE} == WRITE
    assert made["updated_by_username"] == "sam"
    assert api(sam).get(f"/rate-limits/{made['uuid']}").gives() == made
    scopes = [one["scope"] for one in api(sam).get("/rate-limits").gives()["results"]]
    assert scopes == ["login", "signup", "write"]


@pytest.mark.parametrize("name", WRITE)
def test_all_four_properties_are_needed(name, api, sam):
    sent = {key: value for key, value in WRITE.items() if key != name}
    assert api(sam).post("/rate-limits", **sent).fails(422, "validation_failed").startswith(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_requests", value) for value in (0, 1_000_001, "100")),
        *(("window_seconds", value) for value in (0, 86_401, 1.5)),
        *(("is_enabled", value) for value in (1, None)),
        *(("scope", value) for value in ("", "everything", "API", "api ", "x" * 65)),
    ],
)
def test_a_wrong_value_is_refused_and_named(name, value, api, sam, events):
    made = api(sam).post("/rate-limits", **WRITE).gives(201)
    path = f"/rate-limits/{made['uuid']}"
    with events():
        told = api(sam).post("/rate-limits", **{**WRITE, "scope": "git", name: value})
        assert told.fails(422, "validation_failed").startswith(f"{name}: ")
        api(sam).put(path, **{name: value}).fails(422, "validation_failed")
    assert api(sam).get(path).gives() == made


def test_the_bounds_themselves_are_allowed(api, sam):
    for scope, most, seconds in [("git", 1, 1), ("stream", 1_000_000, 86_400)]:
        sent = {**WRITE, "scope": scope, "max_requests": most, "window_seconds": seconds}
        api(sam).post("/rate-limits", **sent).gives(201)


def test_an_unknown_scope_is_told_all_that_there_are(api, sam):
    told = (
        api(sam).post("/rate-limits", **{**WRITE, "scope": "pull"}).fails(422, "validation_failed")
    )
    listed = told.rstrip(".").partition("not one of ")[2].split(", ")
    assert listed == [*known_rate_scopes(), "user:<username>"]


def test_the_families_are_the_tags_of_the_description():
    tags = {tag for one in routed() for tag in one.described["tags"]}
    own = ["api", "anonymous", "authenticated", "write", "git", "stream", "login", "signup"]
    assert known_rate_scopes() == [*own, *sorted(tags)]


def test_the_document_knows_every_scope_and_no_other(api):
    schemas = api().get("/openapi.json").gives()["components"]["schemas"]
    for name in ("CreateRateLimitRequest", "UpdateRateLimitRequest", "RateLimitRecord"):
        scope = schemas[name]["properties"]["scope"]
        assert scope["allOf"] == [{"$ref": "#/components/schemas/RateScope"}]
    schema = {"$schema": DIALECT, **schemas["RateScope"]}
    valid = [*known_rate_scopes(), "user:alice", "user:Alice-B.c_9"]
    assert [text for text in valid if not is_valid(schema, text)] == []
    wrong = ["", "everything", "API", "user:", "user:a b", "user:-a", "user:" + "a" * 40, 1]
    assert [text for text in wrong if is_valid(schema, text)] == []


def test_a_person_has_a_scope_under_the_name_as_they_spell_it(api, sam):
    UserFactory.create(username="Ada")
    sent = {**WRITE, "scope": "user:nobody"}
    api(sam).post("/rate-limits", **sent).fails(422, "user_not_found")
    made = api(sam).post("/rate-limits", **{**WRITE, "scope": "user:aDA"}).gives(201)
    assert made["scope"] == "user:Ada"
    again = {**WRITE, "scope": "user:ADA"}
    api(sam).post("/rate-limits", **again).fails(409, "rate_limit_exists")


def test_a_scope_has_one_limit(api, sam, events):
    api(sam).post("/rate-limits", **WRITE).gives(201)
    git = api(sam).post("/rate-limits", **{**WRITE, "scope": "git"}).gives(201)
    path = f"/rate-limits/{git['uuid']}"
    with events():
        api(sam).post("/rate-limits", **WRITE).fails(409, "rate_limit_exists")
        api(sam).put(path, scope="write", max_requests=5).fails(409, "rate_limit_exists")
    assert api(sam).get(path).gives() == git


def test_a_change_keeps_what_it_does_not_name(api, sam, events):
    made = api(sam).post("/rate-limits", **WRITE).gives(201)
    path = f"/rate-limits/{made['uuid']}"
    with events():
        api(sam).send("PUT", path).fails(400, "malformed_request")
        assert api(sam).put(path, **WRITE).gives() == made
    with events("rate-limit-updated") as seen:
        changes = {"max_requests": 5, "scope": "git"}
        found = api(sam).put(path, **changes).gives()
    assert found == {**made, **changes, "updated_at": found["updated_at"]}
    assert seen[0].data["changed"] == ["scope", "max_requests"]


def test_a_deleted_limit_is_gone(api, alice, sam, events):
    made = api(sam).post("/rate-limits", **WRITE).gives(201)
    path = f"/rate-limits/{made['uuid']}"
    with events():
        api(alice).delete(path).fails(403, "staff_required")
    with events("rate-limit-deleted") as seen:
        api(sam).delete(path).gives(204)
    assert seen[0].data["scope"] == "write"
    for method in ("GET", "PUT", "DELETE"):
        body = {"max_requests": 5} if method == "PUT" else None
        api(sam).send(method, path, body).fails(404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_of_two_who_limit_a_scope_at_once_one_does(api, sam):
    client = api(sam)
    found = at_once(*[lambda: client.post("/rate-limits", **WRITE)] * 3)
    assert found == {(201, None): 1, (409, "rate_limit_exists"): 2}
    assert RateLimit.objects.filter(scope="write").count() == 1
