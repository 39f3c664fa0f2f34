"""`/site-settings`: signed-in people read it, and staff changes it."""

import pytest
from django.db import IntegrityError, transaction

from apps.events.models import Event
from apps.site.actions import update_site_settings
from apps.site.models import SiteSettings
from tests.races import at_once, together

FRESH = {
    "rate_limits_enabled": True,
    "signup_invite_creators": "staff",
    "signup_invite_max_per_24h": 100,
    "signup_invite_min_account_age": "0s",
    "signups_enabled": True,
    "signups_require_invite": True,
}
CHANGED = {
    "rate_limits_enabled": False,
    "signup_invite_creators": "users",
    "signup_invite_max_per_24h": 0,
    "signup_invite_min_account_age": "1h 30m",
    "signups_enabled": False,
    "signups_require_invite": False,
}


WRONG_AGES = ["soon", "11y", "2030-01-01T00:00:00Z", "", 60]


def known(answer):
    return {name: value for name, value in answer.items() if name in FRESH}


def test_a_fresh_install_has_these_settings_for_everybody_signed_in(api, alice):
    found = api(alice).get("/site-settings").gives()
    assert known(found) == FRESH
    assert found["updated_by_username"] is None


@pytest.mark.parametrize("name", FRESH)
def test_staff_changes_one_setting_and_leaves_the_others(name, api, alice, sam, events):
    sent = {name: CHANGED[name]}
    with events("site-settings-updated") as seen:
        found = api(sam).put("/site-settings", **sent).gives()
    assert seen[0].data == {"changed": [name]}
    assert known(found) == {**FRESH, **sent}
    assert found["updated_by_username"] == "sam"
    assert found["updated_at"] > found["created_at"]
    assert api(alice).get("/site-settings").gives() == found


def test_what_is_so_already_is_no_change_and_no_event(api, sam, events):
    before = api(sam).get("/site-settings").gives()
    with events():
        assert api(sam).put("/site-settings", **FRESH).gives() == before
        assert api(sam).put("/site-settings").gives() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate_limits_enabled", "true"),
        ("signups_enabled", 1),
        ("signups_require_invite", None),
        ("signup_invite_creators", "everybody"),
        *(("signup_invite_max_per_24h", value) for value in (-1, 100_001, "5", True)),
        *(("signup_invite_min_account_age", value) for value in WRONG_AGES),
    ],
)
def test_a_wrong_value_changes_nothing_and_is_named(name, value, api, sam, events):
    other = {"signups_enabled": False} if name != "signups_enabled" else {}
    with events():
        told = api(sam).put("/site-settings", **other, **{name: value})
    assert told.fails(422, "validation_failed").startswith(f"{name}: ")
    assert known(api(sam).get("/site-settings").gives()) == FRESH


def test_a_property_that_is_none_is_refused(api, sam):
    api(sam).put("/site-settings", signups=True).fails(422, "unknown_field")
    api(sam).send("PUT", "/site-settings").fails(400, "malformed_request")
    api(sam).post("/site-settings").fails(405, "method_not_allowed")


@pytest.mark.parametrize("text", ["0s", "3 days", " 2w  1d ", "1M", "10y"])
def test_a_duration_is_kept_as_it_was_given(text, api, sam):
    sent = {"signup_invite_min_account_age": text}
    assert known(api(sam).put("/site-settings", **sent).gives())[next(iter(sent))] == text


def test_the_event_is_for_staff_and_leads_to_the_settings(api, alice, sam):
    api(sam).put("/site-settings", signups_enabled=False).gives()
    event = api(sam).get("/events?scope=site&per_page=1").gives()["results"][0]
    assert event["kind"] == "site-settings-updated"
    assert set(event["scopes"]) == {"site", "user:sam"}
    assert event["summary"]["api_url"] == "http://testserver/api/v1/site-settings"
    api(alice).get(f"/events/{event['id']}").fails(403, "forbidden")


def test_there_is_never_a_second_row(db):
    SiteSettings.load()
    with pytest.raises(IntegrityError), transaction.atomic():
        SiteSettings.objects.create(pk=2)


def test_the_command_line_needs_no_actor(db):
    assert update_site_settings(principal=None, signups_enabled=False).updated_by is None
    assert Event.objects.latest("id").actor is None


@pytest.mark.django_db(transaction=True)
def test_two_who_need_the_missing_row_at_once_get_the_same(restless):
    SiteSettings.objects.all().delete()
    assert together(*[lambda: SiteSettings.load().pk] * 8) == [SiteSettings.ONLY] * 8


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_at_once_neither_is_lost(api, sam):
    changes = [{"signups_enabled": False}, {"signup_invite_max_per_24h": 5}]
    client = api(sam)
    done = at_once(*[lambda sent=sent: client.put("/site-settings", **sent) for sent in changes])
    assert done == {(200, None): 2}
    row = SiteSettings.objects.get()
    assert (row.signups_enabled, row.signup_invite_max_per_24h) == (False, 5)
