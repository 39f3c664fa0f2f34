"""A webhook that is disabled pings its creator and the owners."""

from __future__ import annotations

import pytest
from django.db import transaction

from apps.events.models import Ping
from apps.teams.models import Member, Role
from apps.webhooks.actions import disable_webhook
from apps.webhooks.models import DisabledReason, Webhook
from tests.api import Api
from tests.factories import MemberFactory, UserFactory
from tests.web.page_client import PageClient


@pytest.fixture
def disable(events):
    """Disables the webhook with this record, and returns the event."""

    def act(made, reason=DisabledReason.GAVE_UP):
        with events("webhook-disabled") as recorded, transaction.atomic():
            disable_webhook(webhook=Webhook.objects.get(uuid=made["uuid"]), reason=reason)
        return recorded[0]

    return act


def pinged(event):
    return set(Ping.objects.filter(event=event).values_list("user__username", flat=True))


def test_the_creator_and_the_owners_are_pinged(places, api, acme, disable):
    dan = MemberFactory.create(team=acme, user=UserFactory.create(username="dan"), role=Role.ADMIN)
    made = api(dan.user).post(places["team"].path, url="https://ci.example.org/").gives(201)
    MemberFactory.create(team=acme, user=UserFactory.create(username="ada"), role=Role.ADMIN)
    event = disable(made)
    assert event.data == {"reason": "gave_up"} and event.actor is None
    assert pinged(event) == {"alice", "dan"}
    read = places["team"].api.get(f"{places['team'].path}/{made['uuid']}").gives()
    assert (read["state"], read["disabled_reason"]) == ("disabled", "gave_up")


def test_a_creator_who_may_no_longer_change_it_is_not_pinged(places, api, acme, disable):
    dan = MemberFactory.create(team=acme, user=UserFactory.create(username="dan"), role=Role.ADMIN)
    made = api(dan.user).post(places["repo"].path, url="https://ci.example.org/").gives(201)
    Member.objects.filter(pk=dan.pk).update(role=Role.MEMBER)
    assert pinged(disable(made, DisabledReason.GONE)) == {"alice"}


def test_of_the_site_staff_is_pinged(places, disable):
    UserFactory.create(username="sue", staff=True)
    UserFactory.create(username="ian", staff=True, inactive=True)
    assert pinged(disable(places["site"].create())) == {"sam", "sue"}


def test_a_disabled_webhook_is_not_disabled_again(of_repo, events):
    made = of_repo.create(is_active=False)
    with events(), transaction.atomic():
        disable_webhook(webhook=Webhook.objects.get(), reason=DisabledReason.GAVE_UP)
    assert Webhook.objects.get(uuid=made["uuid"]).disabled_reason == "manual"


def test_the_pinged_read_the_event_and_others_do_not(of_repo, api, alice, bob, carol, disable):
    event = disable(of_repo.create())
    for person in (bob, carol):
        api(person).get(f"/events/{event.pk}").fails(403, "forbidden")
        assert api(person).get("/events?scope=inbox").gives()["results"] == []
    api(bob).get("/events?scope=site").fails(403, "staff_required")
    in_repo = api(bob).get("/events?scope=repo:teams/acme/api&scope=team:acme").gives()["results"]
    assert not [one for one in in_repo if one["kind"].startswith("webhook")]
    [ping] = api(alice).get("/pings").gives()["results"]
    uuid = event.target["uuid"]
    assert ping["kind"] == "webhook_disabled" and ping["api_url"] is None
    assert ping["web_url"].endswith(f"/webhooks/{uuid}")
    [inbox] = api(alice).get("/events?scope=inbox").gives()["results"]
    assert inbox == api(alice).get(f"/events/{event.pk}").gives()
    assert inbox["scopes"] == ["site"] and inbox["target"] == {"kind": "webhook", "uuid": uuid}


def test_a_limited_token_does_not_read_the_event(of_repo, make, alice, team_repo, disable):
    event = disable(of_repo.create())
    limited = Api(make.scoped_token(alice, team_repo))
    assert limited.get(f"/events/{event.pk}").status == 403
    assert limited.get("/pings").status == 403


def test_the_event_of_a_repository_of_a_person_has_no_name(make, api, alice, disable):
    repo = make.repo(alice, "own", by=alice)
    made = api(alice).post(f"{repo.api_path}/webhooks", url="https://ci.example.org/").gives(201)
    event = disable(made)
    assert pinged(event) == {"alice"}
    text = f"{event.target} {event.data} {event.web_suffix} {event.api_suffix} {event.title}"
    assert "alice" not in text and "own" not in text


def test_the_inbox_leads_to_the_webhook(of_repo, alice, bob, disable):
    made = of_repo.create()
    disable(made)
    page = PageClient(alice).get("/inbox").gives()
    assert "Guildhall disabled a webhook of yours" in page.text
    address = page.find(r'href="[^"]*(/webhooks/[0-9a-f-]+)"')
    target = f"/teams/acme/api/settings/webhooks/{made['uuid']}"
    PageClient(alice).get(address).redirects_to(target)
    PageClient(bob).get(address).gives(404)
