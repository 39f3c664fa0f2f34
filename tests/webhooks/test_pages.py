"""The pages of webhooks."""

from __future__ import annotations

import datetime as dt
from html import escape

import pytest
from django.utils import timezone

from apps.core.views import site_url
from apps.repos.models import Repo
from apps.teams.models import Team
from apps.webhooks.models import Delivery, Webhook
from tests.test_queries import costing, webhook_by
from tests.web.page_client import PageClient
from tests.webhooks.receivers import Receiver

HOMES = {
    "repo": "/teams/acme/api/settings/webhooks",
    "team": "/teams/acme/~settings/webhooks",
    "site": "/site/webhooks",
}
URL = "https://ci.example.org/hook"


@pytest.fixture(params=HOMES)
def home(request, team_repo):
    return HOMES[request.param]


@pytest.fixture
def of_repo(team_repo):
    return HOMES["repo"]


@pytest.fixture
def staff(sam):
    return PageClient(sam)


def add(person, home, **fields):
    return person.post(home, **{"url": URL, "description": "", "kinds": "", **fields})


def test_a_webhook_is_added_and_its_secret_shown_once(home, staff, events):
    assert "There are no webhooks" in staff.get(home).gives().text
    with events():
        assert "no-such" in add(staff, home, kinds="no-such").gives(422).alert()
        assert "user nor a fragment" in add(staff, home, url=f"{URL}#x").gives(422).alert()
    with events("webhook-created"):
        made = add(staff, home, kinds="pull-merged\r\nbranch-pushed", description="CI").gives(201)
    row = Webhook.objects.get()
    assert made.find(r'id="new-secret"[^>]* value="([^"]+)"') == row.secret
    assert row.kinds == ["branch-pushed", "pull-merged"]
    page = staff.get(home).gives()
    assert row.secret not in page.html and "active" in page.text and "CI" in page.text
    assert "no-store" in made.header("Cache-Control")


def test_a_webhook_is_changed_and_deleted(home, staff, events):
    add(staff, home)
    one = f"{home}/{Webhook.objects.get().uuid}"
    page = staff.get(one).gives()
    assert page.value("url") == URL
    with events("webhook-updated") as recorded:
        sent = {**page.inputs(), "initial-kinds": "", "kinds": "pull-merged", "description": "Chat"}
        staff.post(one, **sent).redirects_to(one)
    assert recorded[0].data == {"changed": ["kinds", "description"]}
    own = staff.post(one, **{**sent, "url": f"{site_url()}/"}).gives(422)
    assert own.alert() and Webhook.objects.get().url == URL
    staff.get(f"{one}/delete").gives()
    assert Webhook.objects.exists()
    with events("webhook-deleted"):
        staff.post(f"{one}/delete").redirects_to(home)


def test_a_new_secret_is_shown_once(home, staff):
    add(staff, home)
    row = Webhook.objects.get()
    rotate = f"{home}/{row.uuid}/rotate"
    assert staff.get(rotate).gives().value("keep_old_hours") == "24"
    staff.post(rotate, keep_old_hours="73").gives(422)
    page = staff.post(rotate, keep_old_hours="2").gives()
    new = Webhook.objects.get()
    assert new.secret in page.html and new.old_secret == row.secret
    assert "has a signature by the one before" in staff.get(f"{home}/{row.uuid}").text
    assert new.secret not in staff.get(rotate).html


def test_the_state_is_said_in_words_and_a_person_decides(home, staff):
    add(staff, home)
    row = Webhook.objects.get()
    one = f"{home}/{row.uuid}"
    assert "Nothing has been sent yet" in staff.get(one).text
    later = timezone.now() + dt.timedelta(hours=3)
    Webhook.objects.update(consecutive_failures=4, next_attempt_at=later, last_success_at=later)
    text = staff.get(one).text
    assert "4 attempts failed" in text and "Next attempt in" in text
    staff.post(f"{one}/state", state="next").redirects_to(one)
    assert "active Last success" in staff.get(one).text
    staff.post(f"{one}/state", state="off").redirects_to(one)
    page = staff.get(one)
    assert "A person switched it off" in page.text
    assert "drops the events that wait" in page.text and "oldest first" in page.text
    Webhook.objects.update(disabled_reason="gave_up", cursor_event_id=0)
    assert "Ten attempts to deliver" in staff.get(home).text
    staff.post(f"{one}/state", state="now").redirects_to(one)
    row = Webhook.objects.get()
    assert row.is_active and row.cursor_event_id > 0


def test_a_ping_and_a_redelivery_lead_to_their_delivery(of_repo, staff, on_this_machine):
    with Receiver(answer=lambda _: (200, {"x-a": "<b>"}, b"<script>hi</script>")) as receiver:
        add(staff, of_repo, url=receiver.url)
        one = f"{of_repo}/{Webhook.objects.get().uuid}"
        sent = staff.post(f"{one}/ping")
        first = Delivery.objects.get()
        sent.redirects_to(f"{one}/deliveries/{first.uuid}")
        page = staff.get(f"{one}/deliveries/{first.uuid}").gives()
        again = staff.post(f"{one}/deliveries/{first.uuid}/redeliver")
    second = Delivery.objects.latest("pk")
    again.redirects_to(f"{one}/deliveries/{second.uuid}")
    assert "Sent: 200 in" in page.text
    assert escape("<script>hi</script>") in page.html and "<script>hi" not in page.html
    assert "webhook-id" in page.text and "v1," not in page.html
    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert second.is_redelivery and len({*ids}) == 1
    listed = staff.get(one)
    assert "Succeeded: ping" in listed.text and "sent again by request" in listed.text


def test_nobody_changes_webhooks_of_an_archived_repository_or_inactive_team(staff, team_repo):
    for kind, rows in (("repo", Repo.objects), ("team", Team.objects)):
        home = HOMES[kind]
        add(staff, home)
        row = Webhook.objects.latest("pk")
        one = f"{home}/{row.uuid}"
        assert "New webhook" in staff.get(home).text and "Switch off" in staff.get(one).text
        rows.update(**({"is_archived": True} if kind == "repo" else {"is_active": False}))
        assert "New webhook" not in staff.get(home).gives().text
        page = staff.get(one).gives()
        assert "goes on sending" in page.text and page.html.count("<form") == 2  # search, sign out
        status = 409 if kind == "repo" else 403
        for end in ("", "/state", "/ping", "/rotate", "/delete"):
            staff.post(f"{one}{end}", url=URL, keep_old_hours="1").gives(status)
        rows.update(**({"is_archived": False} if kind == "repo" else {"is_active": True}))
        assert Webhook.objects.get(pk=row.pk).is_active


def test_a_list_costs_the_same_for_four_webhooks_as_for_one(of_repo, staff, alice, team_repo):
    costs = []
    for count in (1, 3):
        for _ in range(count):
            webhook_by(alice, repo=team_repo)
        staff.get(of_repo).gives()
        with costing() as cost:
            staff.get(of_repo).gives()
        costs.append(cost.sql)
    assert costs[0] == costs[1] <= 10


def test_admins_of_a_team_find_the_page_and_members_do_not(team_repo, alice, bob):
    home = HOMES["team"]
    assert home in PageClient(alice).get("/teams/acme").html
    assert home not in PageClient(bob).get("/teams/acme").html
    PageClient(bob).get(home).gives(403)
    assert PageClient().get(home).status == 302
