"""/signup-invites"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.principal import ANONYMOUS
from apps.core.errors import ApiError
from apps.events.models import Event
from apps.site.models import SiteSettings
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.races import at_once

DAY = dt.timedelta(days=1)
FAR = "2999-01-01T00:00:00.000000Z"
NOBODYS = "/signup-invites/00000000-0000-4000-8000-000000000000"
PASSWORD = "a long way to the hall"


@pytest.fixture
def site(db: None) -> Any:
    """`site(signup_invite_creators="users")` sets the site's settings."""

    def change(**values: Any) -> None:
        SiteSettings.load()
        SiteSettings.objects.update(**values)

    return change


def invite(by: User, **fields: Any) -> Invite:
    return actions.create_invite(
        principal=principal_of(by), **{"expires_at": timezone.now() + DAY, **fields}
    )


def accepted(invite: Invite, username: str, email: str) -> User:
    return actions.sign_up(
        principal=ANONYMOUS, username=username, email=email, password=PASSWORD, invite=invite
    )


def test_nobody_else_learns_which_invites_there_are(api, alice):
    api(alice).get(NOBODYS).fails(403, "staff_required")
    api().get(NOBODYS).fails(401, "not_authenticated")
    api(alice).post("/signup-invites").fails(403, "staff_required")


def test_an_invite_is_for_an_address_or_for_whoever_has_its_link(api, sam, events):
    staff = api(sam)
    for wrong in ({}, {"expires_at": None}, {"expires_at": "1d", "email": "bob at home"}):
        staff.post("/signup-invites", **wrong).fails(422, "validation_failed")
    staff.post("/signup-invites", expires_at="1d", role="staff").fails(422, "unknown_field")
    with events("invite-created") as recorded:
        made = staff.post("/signup-invites", expires_at=FAR, email="Bob@x.org").gives(201)
    assert (made["email"], made["expires_at"], made["status"]) == ("Bob@x.org", FAR, "pending")
    assert (made["created_by_username"], made["created_by_uuid"]) == ("sam", str(sam.uuid))
    assert (made["accepted_at"], made["accepted_by_username"]) == (None, None)
    assert made["invite_url"] == f"http://127.0.0.1:8000/signup?invite={made['uuid']}"
    assert (recorded[0].data, recorded[0].site) == ({}, 1)
    assert staff.get(f"/signup-invites/{made['uuid']}").gives() == made
    for anyone in ({}, {"email": ""}):
        made = staff.post("/signup-invites", expires_at="1d", **anyone).gives(201)
        assert made["email"] is None


@pytest.mark.parametrize("sent", ["1h", "1 day", "3 days", "2w 1d", "10y"])
def test_an_invite_ends_after_a_duration(api, sam, sent):
    made = api(sam).post("/signup-invites", expires_at=sent).gives(201)
    assert dt.datetime.fromisoformat(made["expires_at"]) > timezone.now()


@pytest.mark.parametrize("sent", ["", "0s", "soon", "11y", "2020-01-01T00:00:00Z", "2999-01-01", 5])
def test_an_invite_ends_in_the_future(api, sam, sent):
    refused = api(sam).post("/signup-invites", expires_at=sent)
    assert refused.fails(422, "validation_failed").startswith("expires_at: ")
    url = f"/signup-invites/{invite(sam).uuid}"
    api(sam).put(url, expires_at=sent).fails(422, "validation_failed")


def test_an_invite_is_changed_by_what_was_sent(api, sam, events):
    made = invite(sam, email="a@x.org")
    url = f"/signup-invites/{made.uuid}"
    with events("invite-updated", "invite-updated") as recorded:
        assert api(sam).put(url, email="b@x.org").gives()["email"] == "b@x.org"
        api(sam).put(url, email="b@x.org").gives()
        api(sam).put(url).gives()
        after = api(sam).put(url, email="", expires_at=FAR).gives()
    assert [event.data for event in recorded] == [
        {"changed": ["email"]},
        {"changed": ["email", "expires_at"]},
    ]
    assert (after["email"], after["expires_at"]) == (None, FAR)
    assert "x.org" not in str([event.__dict__ for event in Event.objects.all()])


def test_an_invite_goes_from_pending_to_expired_and_back(api, sam):
    made = invite(sam)
    url = f"/signup-invites/{made.uuid}"
    actions.update_invite(principal=principal_of(sam), invite=made, expires_at=timezone.now())
    assert api(sam).get(url).gives()["status"] == "expired"
    with pytest.raises(ApiError, match="expired") as refused:
        accepted(made, "eve", "eve@x.org")
    assert refused.value.code == "invalid_transition"
    assert api(sam).put(url, expires_at="1h").gives()["status"] == "pending"
    assert accepted(made, "eve", "eve@x.org").username == "eve"


def test_an_accepted_invite_stays_accepted_and_is_not_changed(api, sam):
    made = invite(sam)
    eve = accepted(made, "eve", "eve@x.org")
    url = f"/signup-invites/{made.uuid}"
    for body in ({}, {"email": "x@x.org"}, {"expires_at": "1d"}):
        api(sam).put(url, **body).fails(409, "invite_already_accepted")
    Invite.objects.update(expires_at=timezone.now())
    record = api(sam).get(url).gives()
    assert (record["status"], record["accepted_by_username"]) == ("accepted", "eve")
    assert record["accepted_by_uuid"] == str(eve.uuid) and record["accepted_at"]
    with pytest.raises(ApiError) as refused:
        accepted(made, "mallory", "mallory@x.org")
    assert refused.value.code == "invite_already_accepted"


@pytest.mark.parametrize("state", ["pending", "expired", "accepted"])
def test_an_invite_in_any_state_can_be_deleted_and_is_gone(api, sam, events, state):
    made = invite(sam)
    if state == "accepted":
        accepted(made, "eve", "eve@x.org")
    if state == "expired":
        Invite.objects.update(expires_at=timezone.now())
    url = f"/signup-invites/{made.uuid}"
    assert api(sam).get(url).gives()["status"] == state
    with events("invite-deleted"):
        api(sam).delete(url).gives(204)
    for answer in (api(sam).get(url), api(sam).put(url, email=""), api(sam).delete(url)):
        answer.fails(404, "not_found")
    assert api(sam).get("/signup-invites").gives()["results"] == []
    with pytest.raises(ApiError) as refused:
        accepted(made, "mallory", "mallory@x.org")
    assert refused.value.code == "not_found"


@pytest.fixture
def three(api, sam) -> Api:
    """sam with invites for b, for anyone and for A, created in this order. A's is accepted."""
    for email, days in (("b@x.org", 2), ("", 1), ("A@x.org", 3)):
        made = invite(sam, email=email, expires_at=timezone.now() + days * DAY)
    eve = accepted(made, "Eve", "a@x.org")
    actions.update_user(
        principal=principal_of(sam), user=eve, display_name="Dr. Ö", email="eve@y.org"
    )
    Invite.objects.filter(email="").update(expires_at=timezone.now())
    staff: Api = api(sam)
    return staff


def emails_in_order(caller: Api, query: str) -> str:
    rows = caller.get(f"/signup-invites?{query}").gives()["results"]
    return "".join((row["email"] or "-")[0] for row in rows)


LISTED = {
    "": "A-b",
    "sort=-created_at": "A-b",
    "sort=created_at": "b-A",
    "sort=expires_at": "-bA",
    "sort=-expires_at": "Ab-",
    "sort=email": "-Ab",
    "sort=-email": "bA-",
    "status=pending": "b",
    "status=expired": "-",
    "status=accepted": "A",
    "search=B@X": "b",
    "search=x.org&sort=email": "Ab",
    "search=eve": "A",
    "search=dr. %C3%B6": "A",
    "search=EVE@Y.org": "A",
    "search=eve&status=pending": "",
    "search=%25": "",
}


@pytest.mark.parametrize(("query", "order"), LISTED.items())
def test_invites_are_found_and_sorted(three, query, order):
    assert emails_in_order(three, query.replace(" ", "%20")) == order


def test_an_invite_is_found_by_its_uuid_or_how_it_begins(three):
    for row in three.get("/signup-invites").gives()["results"]:
        for text in (
            row["uuid"],
            row["uuid"].upper(),
            row["uuid"].replace("-", ""),
            row["uuid"][:11],
        ):
            results = three.get(f"/signup-invites?search={text}").gives()["results"]
            assert [result["uuid"] for result in results] == [row["uuid"]]


def test_other_words_than_those_of_the_list_are_refused(three):
    for query in ("sort=name", "sort=", "status=deleted", "status="):
        three.get(f"/signup-invites?{query}").fails(422, "validation_failed")


def test_staff_has_a_limit_of_invites_in_24_hours_too(api, sam, site):
    site(signup_invite_max_per_24h=2)
    staff, body = api(sam), {"expires_at": "1d"}
    made = [staff.post("/signup-invites", **body).gives(201) for _ in range(2)]
    staff.delete(f"/signup-invites/{made[0]['uuid']}").gives(204)
    refused = staff.post("/signup-invites", **body)
    refused.fails(429, "signup_invite_limit_reached")
    assert 86000 < int(refused.header("Retry-After")) <= 86400
    Invite.objects.filter(uuid=made[1]["uuid"]).update(created_at=timezone.now() - DAY)
    staff.post("/signup-invites", **body).gives(201)
    site(signup_invite_max_per_24h=0)
    staff.post("/signup-invites", **body).fails(429, "signup_invite_limit_reached")


def test_the_limit_is_each_creators_own(api, sam, site):
    site(signup_invite_max_per_24h=1)
    for person in (sam, UserFactory.create(username="sue", staff=True)):
        api(person).post("/signup-invites", expires_at="1d").gives(201)


def test_a_young_account_of_the_staff_waits_too(api, sam, site):
    site(signup_invite_min_account_age="3 days")
    refused = api(sam).post("/signup-invites", expires_at="1d")
    assert "3 days" in refused.fails(403, "account_too_young")
    User.objects.update(created_at=timezone.now() - 3 * DAY)
    api(sam).post("/signup-invites", expires_at="1d").gives(201)


def test_people_invite_where_the_site_says_so_and_handle_what_is_theirs(alice, bob, sam, site):
    def refusal(act, **arguments) -> str:
        with pytest.raises(ApiError) as refused:
            act(**arguments)
        return refused.value.code

    assert refusal(invite, by=alice) == "staff_required"
    site(signup_invite_creators="users", signup_invite_max_per_24h=1)
    own = invite(alice)
    assert refusal(invite, by=alice) == "signup_invite_limit_reached"
    assert (
        list(Invite.objects.visible_to(principal_of(alice)))
        == list(Invite.objects.visible_to(principal_of(sam)))
        == [own]
    )
    assert not Invite.objects.visible_to(principal_of(bob))
    for act in (actions.update_invite, actions.delete_invite):
        assert refusal(act, principal=principal_of(bob), invite=own) == "staff_required"
    actions.update_invite(principal=principal_of(alice), invite=own, email="friend@x.org")
    actions.delete_invite(principal=principal_of(alice), invite=own)
    assert not Invite.objects.visible_to(principal_of(alice))
    site(signup_invite_min_account_age="1d", signup_invite_max_per_24h=2)
    assert refusal(invite, by=alice) == "account_too_young"


@pytest.mark.django_db(transaction=True)
def test_of_many_that_reach_for_the_last_invite_of_the_day_one_gets_it(api, sam, site):
    site(signup_invite_max_per_24h=3)
    staff = api(sam)
    for _ in range(2):
        staff.post("/signup-invites", expires_at="1d").gives(201)
    outcomes = at_once(*[lambda: staff.post("/signup-invites", expires_at="1d")] * 8)
    assert outcomes == {(201, None): 1, (429, "signup_invite_limit_reached"): 7}
    assert Invite.objects.count() == 3
