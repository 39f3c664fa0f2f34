"""`PATCH` beside each `PUT` of a record: only the sent fields are validated and changed."""

from __future__ import annotations

import pytest

from apps.core.errors import Invalid
from apps.core.openapi import OMITTED
from apps.core.serializers import RequestSerializer, partial_of, validated
from apps.events.kinds import Kind
from apps.events.models import Event
from apps.threads.serializers import Link
from tests.routes import resolved, routed
from tests.test_sent_back import writable

PUTS = [one for one in writable() if one.method == "PUT"]
PATCHES = [one for one in routed() if one.method == "PATCH"]


def test_each_record_that_has_a_put_has_a_patch_which_runs_the_same_method():
    patches = {(one.path, one.function) for one in PATCHES}
    assert [one for one in PUTS if (one.path, one.function) not in patches] == []
    assert len(PUTS) > 10


@pytest.mark.parametrize("one", PATCHES, ids=str)
def test_no_field_of_a_patch_is_required(one):
    body = one.described["requestBody"]["content"]["application/json"]["schema"]
    assert "required" not in resolved(body)
    assert OMITTED in one.described["description"]


def test_a_repository_is_archived_without_its_name(api, alice, team_repo):
    url = team_repo.api_path
    before = api(alice).get(url).gives()
    after = api(alice).patch(url, is_archived=True).gives()
    assert after == {**before, "is_archived": True, "updated_at": after["updated_at"]}
    event = Event.objects.latest("id")
    assert (event.kind, event.data["changed"]) == (Kind.REPO_UPDATED, ["is_archived"])

    api(alice).patch(url, name="New").fails(409, "repo_archived")
    api(alice).patch(url, is_archived=False, name="New").gives()
    assert api(alice).patch(url, description=None).gives()["name"] == "New"


def test_a_team_keeps_what_is_not_sent(api, alice, acme):
    renamed = api(alice).patch(f"/teams/{acme.slug}", slug="umbrella").gives()
    assert (renamed["name"], renamed["slug"]) == (acme.name, "umbrella")
    closed = api(alice).patch("/teams/umbrella", is_active=False).gives()
    assert (closed["name"], closed["is_active"]) == (acme.name, False)
    assert api(alice).patch("/teams/umbrella", name="Umbrella", is_active=True).gives()["is_active"]


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        ({"slug": "Not A Slug"}, "validation_failed", "slug: "),
        ({"name": ""}, "validation_failed", "name: "),
        ({"name": None}, "validation_failed", "name: "),
        ({"is_active": "false"}, "validation_failed", "is_active: "),
        ({"title": "x"}, "unknown_field", "Known: name, slug, is_active, second_factor_required."),
    ],
)
def test_a_sent_field_is_checked_as_in_a_put(api, alice, acme, body, code, reason):
    url = f"/teams/{acme.slug}"
    detail = api(alice).patch(url, **body).fails(422, code)
    assert reason in detail
    assert api(alice).put(url, **{"name": acme.name, "slug": acme.slug, **body}).fails(422, code)


def test_a_patch_needs_a_body(api, alice, acme):
    api(alice).send("PATCH", f"/teams/{acme.slug}").fails(400, "malformed_request")


def test_a_put_still_needs_its_fields(api, alice, acme, team_repo):
    missing = api(alice).put(f"/teams/{acme.slug}", is_active=True).fails(422, "validation_failed")
    assert missing == "name: This field is required. slug: This field is required."
    api(alice).put(team_repo.api_path, is_archived=True).fails(422, "validation_failed")


def test_a_put_that_is_no_record_has_no_patch(api, alice):
    token = api(alice).get("/api-tokens/self").gives()["uuid"]
    for path in ("/pings/read-all", f"/api-tokens/{token}/revoke"):
        api(alice).patch(path).fails(405, "method_not_allowed")


def test_fields_inside_a_field_stay_required():
    class UpdateNote(RequestSerializer):
        links = Link(many=True)

    request = partial_of(UpdateNote)()
    assert (request.__class__.__name__, validated(request, {})) == ("PatchNote", {})
    with pytest.raises(Invalid, match="target: This field is required"):
        validated(request, {"links": [{"kind": "blocks"}]})
