"""The ping to the owner of a token a week before it expires."""

from __future__ import annotations

import datetime as dt

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone

from apps.accounts.actions import deactivate_user, revoke_token, rotate_token
from apps.accounts.jobs import send_next_ping_mail, warn_of_expiring_tokens
from apps.accounts.models import ApiToken, User
from apps.events.models import Event, Ping
from apps.teams.actions import create_bot
from tests.plans import planned
from tests.principals import principal_of, team_access_of
from tests.races import together
from tests.web.page_client import PageClient

DAY = dt.timedelta(days=1)


def warn() -> list[str]:
    """Run the job; the names of the people who were pinged by it."""
    last = Event.objects.newest_id()
    warn_of_expiring_tokens()
    pings = Ping.objects.filter(event__gt=last, kind="token_expiring").order_by("pk")
    return [*pings.values_list("user__username", flat=True)]


def test_the_owner_of_a_token_is_pinged_once_before_it_expires(make, api, bob, alice, events):
    token = make.expiring_token(bob)
    with events("token-expiring") as recorded:
        assert warn() == ["bob"]
    assert warn() == []
    assert recorded[0].data == {"name": "ci", "expires_at": token.expires_at.isoformat()}
    [ping] = api(bob).get("/pings").gives()["results"]
    assert ping["kind"] == "token_expiring"
    assert ping["web_url"] == "http://testserver/settings/tokens"
    event = api(bob).get(f"/events/{ping['event_id']}").gives()
    assert (event["actor_user_username"], event["target"]["uuid"]) == (None, str(token.uuid))
    api(alice).get(f"/events/{ping['event_id']}").fails(403, "forbidden")


def test_the_owners_of_a_team_are_pinged_about_the_tokens_of_its_bot(make, api, acme, alice, bob):
    access = team_access_of(alice, acme)
    token = make.expiring_token(create_bot(access=access, username="acme-ci").user)
    assert warn() == ["alice"]
    [ping] = api(alice).get("/pings").gives()["results"]
    assert ping["web_url"] == "http://testserver/teams/acme/~settings/bots/acme-ci"
    event = api(alice).get(f"/events/{ping['event_id']}").gives()
    assert event["target"]["uuid"] == str(token.uuid)
    api(bob).get(f"/events/{ping['event_id']}").fails(403, "forbidden")
    assert PageClient(alice).get("/teams/acme/~settings/bots/acme-ci").status == 200


@pytest.mark.parametrize(
    ("created", "ends", "pinged"),
    [
        (-60 * DAY, 8 * DAY, []),
        (-60 * DAY, 7 * DAY, ["bob"]),
        (-60 * DAY, dt.timedelta(minutes=1), ["bob"]),
        (-60 * DAY, -dt.timedelta(minutes=1), []),
        (-DAY, 5 * DAY, []),
        (-2 * DAY, 6 * DAY, ["bob"]),
        (-60 * DAY, None, []),
    ],
    ids=str,
)
def test_it_comes_in_the_last_week_of_a_token_that_was_made_for_longer(
    make, bob, created, ends, pinged
):
    """Also if no worker ran when the week began."""
    token, now = make.expiring_token(bob), timezone.now()
    times = {"created_at": now + created, "expires_at": None if ends is None else now + ends}
    ApiToken.objects.filter(pk=token.pk).update(**times)
    assert warn() == pinged


def test_a_token_that_has_ended_or_whose_owner_is_gone_pings_nobody(make, bob, carol, sam):
    revoke_token(principal=None, token=make.expiring_token(bob))
    make.expiring_token(carol)
    deactivate_user(principal=principal_of(sam), user=carol)
    assert warn() == []


def test_a_rotated_token_pings_again_as_its_new_text_expires_no_later(make, bob):
    token = make.expiring_token(bob)
    assert warn() == ["bob"]
    rotate_token(principal=None, token=token)
    assert warn() == ["bob"]
    assert warn() == []


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_ping_once(make, bob, events):
    for _ in range(3):
        make.expiring_token(bob)
    with events(*["token-expiring"] * 3):
        together(warn_of_expiring_tokens, warn_of_expiring_tokens)
    assert Ping.objects.filter(user=bob, kind="token_expiring").count() == 3


def test_the_inbox_and_the_mail_name_the_token(make, bob, settings):
    settings.SENDS_MAIL = True
    User.objects.filter(pk=bob.pk).update(email="bob@example.org", wants_mail=True)
    make.expiring_token(User.objects.get(pk=bob.pk))
    assert warn() == ["bob"]
    page = PageClient(bob).get("/inbox")
    assert "Guildhall reminds you that this API token expires soon" in page.text
    assert '<a href="/settings/tokens">' in page.html and ">ci<" in page.html.replace("bdi>", ">")
    send_next_ping_mail()
    [message] = mail.outbox
    assert message.subject == "Your API token ci expires soon"
    assert "reminds you that this API token expires soon (ci)" in message.body
    assert "/settings/tokens" in message.body


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a plan of SQLite")
def test_tokens_to_warn_are_found_along_their_index(db):
    with planned("warned_at") as steps:
        list(ApiToken.objects.to_warn().order_by("expires_at").values_list("pk", flat=True))
    assert any("token_to_warn" in step for step in steps), steps
