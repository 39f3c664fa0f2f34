"""…/webhooks and …/webhooks/{uuid}/deliveries, without sending."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from apps.events.models import Event
from apps.webhooks.actions import MOST_WEBHOOKS
from apps.webhooks.models import Delivery, Webhook
from tests.webhooks.conftest import URL


def row_of(record):
    return Webhook.objects.get(uuid=record["uuid"])


def test_a_webhook_is_created(place, events):
    newest = Event.objects.newest_id()
    place.stranger.post(place.path, url=URL).gives(403)
    with events("webhook-created") as recorded:
        made = place.create(kinds=["pull-merged", "branch-pushed"], description="CI")
    row = row_of(made)
    secret = made.pop("secret")
    assert secret == row.secret and secret.startswith(made["secret_hint"].rstrip("…"))
    assert made["url"] == URL and made["kinds"] == ["branch-pushed", "pull-merged"]
    assert (made["state"], made["disabled_reason"], made["lag"]) == ("active", None, 0)
    assert made["cursor_event_id"] == row.cursor_event_id == newest
    [event] = recorded
    assert (event.site, event.repo_id, event.team_id, event.private_to) == (1, None, None, None)
    assert event.target == {"kind": "webhook", "uuid": made["uuid"]} and event.data == {}
    assert place.api.get(place.path).gives()["results"] == [made]
    assert place.api.get(f"{place.path}/{made['uuid']}").gives() == made


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"url": ""},
        {"url": 7},
        {"url": URL, "kinds": ["no-such-kind"]},
        {"url": URL, "kinds": "pull-merged"},
        {"url": URL, "kinds": [["pull-merged"]]},
        {"url": URL, "is_active": "yes"},
        {"url": URL, "description": "a\nb"},
        {"url": URL, "description": "x" * 256},
        {"url": "https://ci.example.org/" + "x" * 2048},
    ],
)
def test_a_request_with_a_mistake_creates_nothing(of_repo, events, sent):
    with events():
        of_repo.api.post(of_repo.path, **sent).fails(422, "validation_failed")
    with events():
        of_repo.api.post(of_repo.path, url=URL, secret="mine").fails(422, "unknown_field")


def test_there_are_at_most_20_of_each_owner(places):
    for place in (places["repo"], places["team"]):
        for _ in range(MOST_WEBHOOKS):
            made = place.create()
        place.api.post(place.path, url=URL).fails(409, "webhook_limit")
        place.api.delete(f"{place.path}/{made['uuid']}").gives(204)
        place.create()
    assert len(places["repo"].api.get(places["repo"].path).gives()["results"]) == 20
    places["site"].create()


def test_a_webhook_of_another_owner_is_not_found(places):
    made = {kind: place.create()["uuid"] for kind, place in places.items()}
    for kind, place in places.items():
        for other, uuid in made.items():
            status = 200 if kind == other else 404
            assert place.api.get(f"{place.path}/{uuid}").status == status, (kind, other)
            assert place.api.put(f"{place.path}/{uuid}", kinds=[]).status == status
            deliveries = f"{place.path}/{uuid}/deliveries"
            assert place.api.get(deliveries).status == status


def test_only_admins_see_and_change_webhooks(place, events):
    made = place.create()
    one = f"{place.path}/{made['uuid']}"
    with events():
        for method, path in (
            ("GET", place.path),
            ("GET", one),
            ("PUT", one),
            ("DELETE", one),
            ("PUT", f"{one}/rotate-secret"),
            ("GET", f"{one}/deliveries"),
        ):
            answer = place.stranger.send(method, path, None if method == "GET" else {})
            assert answer.status == 403, path
    assert row_of(made).secret == made["secret"]


def test_a_webhook_is_changed(place, events):
    made = place.create()
    one = f"{place.path}/{made['uuid']}"
    with events("webhook-updated") as recorded:
        changed = place.api.put(one, kinds=["pull-merged"], description="Chat").gives()
    assert (changed["kinds"], changed["description"]) == (["pull-merged"], "Chat")
    assert recorded[0].data == {"changed": ["kinds", "description"]}
    with events():
        assert place.api.patch(one, description="Chat").gives()["url"] == URL
    with events("webhook-deleted"):
        place.api.delete(one).gives(204)
    place.api.get(one).fails(404, "not_found")


def test_a_switched_off_webhook_resumes_where_it_was_or_now(of_repo, make, alice, team_repo):
    made = of_repo.create(kinds=["thread-created"])
    one = f"{of_repo.path}/{made['uuid']}"
    off = of_repo.api.put(one, is_active=False).gives()
    assert (off["state"], off["disabled_reason"]) == ("disabled", "manual")
    of_repo.api.put(one, resume="next").fails(422, "validation_failed")
    of_repo.api.put(one, is_active=True, resume="later").fails(422, "validation_failed")
    make.thread(team_repo, by=alice)
    assert of_repo.api.get(one).gives()["lag"] == 1
    on = of_repo.api.put(one, is_active=True).gives()
    assert (on["state"], on["disabled_reason"], on["lag"]) == ("active", None, 1)
    assert on["cursor_event_id"] == made["cursor_event_id"]
    newest = Event.objects.newest_id()
    now = of_repo.api.put(one, resume="now").gives()
    assert (now["lag"], now["cursor_event_id"]) == (0, newest)


@pytest.mark.parametrize("change", [{"resume": "next"}, {"url": f"{URL}2"}, {"is_active": True}])
def test_a_back_off_ends_when_a_person_intervenes(of_repo, change):
    made = of_repo.create(is_active="is_active" not in change)
    later = timezone.now() + dt.timedelta(hours=5)
    Webhook.objects.update(
        consecutive_failures=4, next_attempt_at=later, lease_until=later, lease_token=made["uuid"]
    )
    one = f"{of_repo.path}/{made['uuid']}"
    if "is_active" not in change:
        assert of_repo.api.put(one, description="x").gives()["state"] == "backing_off"
    assert of_repo.api.put(one, **change).gives()["state"] == "active"
    row = row_of(made)
    assert (row.consecutive_failures, row.next_attempt_at, row.lease_token) == (0, None, None)


def test_a_change_keeps_the_progress_of_the_worker(of_repo):
    made = of_repo.create()
    Webhook.objects.update(cursor_event_id=99, consecutive_failures=2, lease_token=made["uuid"])
    of_repo.api.put(f"{of_repo.path}/{made['uuid']}", description="x", is_active=False).gives()
    row = row_of(made)
    assert (row.cursor_event_id, row.consecutive_failures) == (99, 2)
    assert str(row.lease_token) == made["uuid"]


def test_lag_counts_the_events_of_the_kinds(of_repo, make, alice, team_repo):
    every, some, none = (
        of_repo.create(kinds=kinds) for kinds in ([], ["thread-created"], ["repo-updated"])
    )
    thread = make.thread(team_repo, by=alice)
    make.reply(thread, by=alice)
    rows = of_repo.api.get(of_repo.path).gives()["results"]
    lags = {row["uuid"]: row["lag"] for row in rows}
    assert [lags[one["uuid"]] for one in (every, some, none)] == [2, 1, 0]


def test_deliveries_are_listed_and_filtered(place, make_delivery):
    made = place.create()
    row, url = row_of(made), f"{place.path}/{made['uuid']}/deliveries"
    failed = make_delivery(row, status="failed", response_status=None, error="timeout")
    ping = make_delivery(row, event_id=None, kind="ping", is_redelivery=True)
    make_delivery(row, event_id=8)

    def ids(query=""):
        return [one["uuid"] for one in place.api.get(url + query).gives()["results"]]

    assert len(ids()) == 3 and ids()[1] == str(ping.uuid)
    assert ids("?status=failed") == ids("?event_id=7") == [str(failed.uuid)]
    assert ids("?event_id=x") == ids("?event_id=" + "9" * 30) == []
    place.api.get(f"{url}?status=lost").fails(422, "validation_failed")
    full = place.api.get(f"{url}/{failed.uuid}").gives()
    assert (full["error"], full["response_status"]) == ("timeout", None)
    assert full["request_body"] == failed.request_body and full["response_body"] == "ok"
    assert "request_body" not in place.api.get(url).gives()["results"][0]


def test_a_delivery_of_another_webhook_is_not_found(of_repo, make_delivery):
    made, other = of_repo.create(), of_repo.create()
    delivery = make_delivery(row_of(other))
    of_repo.api.get(f"{of_repo.path}/{made['uuid']}/deliveries/{delivery.uuid}").fails(
        404, "not_found"
    )
    of_repo.api.delete(f"{of_repo.path}/{other['uuid']}").gives(204)
    assert not Delivery.objects.exists()


def test_a_rotation_keeps_the_old_secret_for_a_while(place, events):
    made = place.create()
    rotate = f"{place.path}/{made['uuid']}/rotate-secret"
    for hours in (-1, 73, "24", None):
        place.api.put(rotate, keep_old_hours=hours).fails(422, "validation_failed")
    with events("webhook-updated") as recorded:
        rotated = place.api.put(rotate).gives()
    assert recorded[0].data == {"changed": ["secret"]}
    row = row_of(made)
    assert (row.old_secret, row.secret) == (made["secret"], rotated["secret"])
    left = row.old_secret_until - timezone.now()
    assert dt.timedelta(hours=23) < left <= dt.timedelta(hours=24)
    at_once = place.api.put(rotate, keep_old_hours=0).gives()
    row = row_of(made)
    assert (row.old_secret, row.old_secret_until) == ("", None)
    assert len({made["secret"], rotated["secret"], at_once["secret"], row.secret}) == 3
