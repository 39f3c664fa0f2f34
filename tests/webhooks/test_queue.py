"""The queue of a webhook: leases, cursor, back-off, and the events that it may send."""

from __future__ import annotations

import datetime as dt
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.core import json
from apps.events.models import Event
from apps.repos.actions import delete_repo
from apps.teams.actions import remove_member
from apps.webhooks import queue
from apps.webhooks.actions import update_webhook
from apps.webhooks.events import behind, overdue, read_news
from apps.webhooks.models import Delivery, DisabledReason, Webhook
from apps.webhooks.queue import BACK_OFF
from apps.webhooks.sending import Outcome
from tests.principals import access_of, team_access_of
from tests.webhooks.hooks import (
    BROKEN,
    OK,
    claimed,
    fail_once,
    ids_of,
    last_delivery,
    make_hook,
    next_step,
    settle,
    write,
)

URL = "https://ci.example.org/hook"
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def thread(make, team_repo, alice):
    return make.thread(team_repo, by=alice)


@pytest.fixture
def hook(thread, team_repo, alice):
    """A webhook of the repository, before any event that it sends."""
    return make_hook(URL, alice, team_repo)


@pytest.mark.django_db
def test_a_webhook_without_events_is_not_taken_and_not_written(hook):
    before = Webhook.objects.values().get()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert claimed(hook) == []
    assert not [query for query in queries if "UPDATE" in query["sql"]]
    assert Webhook.objects.values().get() == before


@pytest.mark.django_db
def test_events_come_in_order_and_a_failure_holds_back_the_later_ones(make, hook, thread, alice):
    write(make, thread, alice, 3)
    first, second, third = ids_of(hook.key, hook.cursor_event_id)
    [step] = claimed(hook)
    assert step.attempt.payload.message_id == f"evt_{first}"
    step = next_step(step)
    assert step.attempt.payload.event_id == second
    assert settle(step, BROKEN) is None
    hook.refresh_from_db()
    assert hook.cursor_event_id == first and hook.lease_token is None
    assert claimed(hook) == []  # not due yet
    Webhook.objects.update(next_attempt_at=timezone.now())
    [step] = claimed(hook)
    assert step.attempt.payload.event_id == second and step.is_recovering
    step = next_step(step)
    assert step.attempt.payload.event_id == third
    assert settle(step, OK) is None
    rows = Delivery.objects.order_by("pk").values_list("event_id", "attempt", "status")
    assert [*rows] == [
        (first, 1, "succeeded"),
        (second, 1, "failed"),
        (second, 2, "succeeded"),
        (third, 1, "succeeded"),
    ]


@pytest.mark.django_db
def test_of_two_workers_one_takes_a_lease_and_none_with_an_old_cursor(hook):
    stale = Webhook.objects.get()
    first, second = uuid4(), uuid4()
    assert queue.take([hook], first)
    assert not queue.take([stale], second)
    Webhook.objects.update(lease_until=None, lease_token=None, cursor_event_id=F("id") + 10**6)
    assert not queue.take([stale], second)
    hook.refresh_from_db()
    assert queue.take([hook], second)


@pytest.mark.django_db
def test_a_webhook_that_a_person_has_changed_since_it_was_loaded_is_not_taken(
    make, hook, thread, alice, team_repo
):
    write(make, thread, alice, 1)
    stale = Webhook.objects.get()
    update_webhook(access=access_of(alice, team_repo), webhook=hook, url="https://new.example.org/")
    assert not queue.take([stale], uuid4())
    [step] = claimed(hook)
    assert step.attempt.message.address.host == "new.example.org"


@pytest.mark.django_db
def test_webhooks_without_an_event_leave_their_places_to_others_of_the_host(
    make, hook, thread, alice, team_repo
):
    due = {"consecutive_failures": 1, "next_attempt_at": timezone.now()}
    Webhook.objects.update(**due, kinds=["thread-closed"])
    idle = make_hook(hook.url, alice, team_repo, **due, kinds=["thread-closed"])
    last = make_hook(hook.url, alice, team_repo, **due)
    write(make, thread, alice, 1)
    assert [step.webhook for step in claimed(hook, idle, last)] == [last]


@pytest.mark.django_db
def test_a_worker_that_has_lost_its_lease_changes_nothing(make, hook, thread, alice):
    write(make, thread, alice, 1)
    [slow] = claimed(hook)
    assert claimed(hook) == []  # another worker holds it
    Webhook.objects.update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    assert overdue() == [hook.pk]
    [step] = claimed(hook)
    assert settle(slow, OK) is None
    hook.refresh_from_db()
    assert hook.cursor_event_id < step.attempt.payload.event_id
    assert not Delivery.objects.exists()
    settle(step, OK)
    assert Delivery.objects.count() == 1


@pytest.mark.django_db
def test_a_stopping_worker_releases_the_lease(make, hook, thread, alice):
    write(make, thread, alice, 2)
    [step] = claimed(hook)
    assert settle(step, OK, goes_on=False) is None
    [step] = claimed(hook)
    assert step.attempt.payload.event_id == ids_of(hook.key)[-1]


@pytest.mark.django_db
def test_75_hours_of_failures_disable_a_webhook_and_it_resumes_without_loss(
    make, hook, thread, alice, team_repo, events
):
    write(make, thread, alice, 2)
    expected = ids_of(hook.key, hook.cursor_event_id)
    for number, wait in enumerate(BACK_OFF, 1):
        fail_once(hook)
        actual = hook.next_attempt_at - timezone.now()
        assert wait * 0.79 < actual < wait * 1.21, number
        assert (hook.consecutive_failures, hook.is_active) == (number, True)
    assert 75 * HOUR < sum(BACK_OFF, dt.timedelta()) < 76 * HOUR
    with events("webhook-disabled") as recorded:
        fail_once(hook)
    assert (hook.is_active, hook.disabled_reason) == (False, DisabledReason.GAVE_UP)
    assert recorded[0].data == {"reason": "gave_up"} and recorded[0].site == 1
    assert claimed(hook) == []
    access = access_of(alice, team_repo)
    update_webhook(access=access, webhook=hook, is_active=True, resume="next")
    [step] = claimed(hook)
    assert step.attempt.payload.event_id == expected[0]
    assert next_step(step).attempt.payload.event_id == expected[1]


@pytest.mark.django_db
def test_410_disables_at_once(make, hook, thread, alice, events):
    write(make, thread, alice, 1)
    with events("webhook-disabled"):
        fail_once(hook, Outcome(1, "status", 410))
    assert (hook.is_active, hook.disabled_reason) == (False, DisabledReason.GONE)


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (429, "120", 120),
        (503, "3600", 3600),
        (503, "3601", 5),
        (500, "120", 5),
        (429, "soon", 5),
        (429, "-1", 5),
        (429, "٣٠٠", 5),
        (429, "9" * 4000, 5),
        (503, "Sat, 01 Jan 2000 00:00:00 GMT", 5),
        (503, "Sat, 01 Jan 2000", 5),
        (503, f"Sat, {'9' * 20} Jan 2000 00:00:00 GMT", 5),
    ],
)
@pytest.mark.django_db
def test_retry_after_of_an_hour_at_most_is_obeyed(make, hook, thread, alice, status, text, seconds):
    write(make, thread, alice, 1)
    fail_once(hook, Outcome(1, "status", status, {"retry-after": text}))
    wait = (hook.next_attempt_at - timezone.now()).total_seconds()
    assert seconds * 0.79 < wait < seconds * 1.21


@pytest.mark.django_db
def test_an_outcome_does_not_move_the_cursor_back(make, hook, thread, alice):
    write(make, thread, alice, 2)
    [step] = claimed(hook)
    newest = Event.objects.newest_id()
    Webhook.objects.update(cursor_event_id=newest)  # a person drops the backlog meanwhile
    assert settle(step, OK) is None
    hook.refresh_from_db()
    assert hook.cursor_event_id == newest


@pytest.mark.django_db
def test_only_selected_kinds_are_sent_and_many_others_are_skipped_by_one_write(
    make, hook, thread, alice, monkeypatch
):
    monkeypatch.setattr(queue, "SKIP", 5)
    Webhook.objects.update(kinds=["thread-closed"])
    write(make, thread, alice, 4)
    assert claimed(hook) == []
    cursor = hook.cursor_event_id
    hook.refresh_from_db()
    assert hook.cursor_event_id == cursor  # a write for each event would cost too much
    write(make, thread, alice, 1)
    assert claimed(hook) == []
    hook.refresh_from_db()
    assert hook.cursor_event_id == Event.objects.newest_id()
    assert behind() == []


@pytest.mark.django_db
def test_news_name_the_webhooks_of_new_events_in_two_queries(
    make, hook, thread, team_repo, acme, alice, sam
):
    other = make.repo(acme, "other", by=alice)
    last = Event.objects.newest_id()
    of_team = make_hook(URL, alice, team=acme)
    of_site = make_hook(URL, sam)
    make_hook(URL, alice, other)
    make_hook(URL, alice, team_repo, is_active=False)
    make_hook(URL, alice, team_repo, next_attempt_at=timezone.now() + HOUR)
    picky = make_hook(URL, alice, team_repo, kinds=["thread-closed"])
    write(make, thread, alice, 3)
    with CaptureQueriesContext(connection) as queries:
        news = read_news(last)
    assert len(queries) == 2
    assert news.webhooks == {hook.pk, of_team.pk}
    assert news.skipped[picky.pk] == 3
    assert news.last == Event.objects.newest_id() and not news.has_changes
    assert set(behind()) >= {hook.pk, of_team.pk, picky.pk}
    assert of_site.pk not in behind()


@pytest.mark.django_db
def test_a_deleted_repository_sends_nothing_until_it_is_restored(
    make, hook, thread, team_repo, acme, alice
):
    of_team = make_hook(URL, alice, team=acme, cursor_event_id=hook.cursor_event_id)
    write(make, thread, alice, 1)
    delete_repo(access=access_of(alice, team_repo), confirm=team_repo.full_name)
    assert claimed(hook) == []
    [step] = claimed(of_team)
    assert step.attempt.payload.kind == "repo-deleted"
    assert step.attempt.payload.event_id != ids_of(hook.key, hook.cursor_event_id)[0]


@pytest.mark.django_db
def test_a_webhook_sends_for_its_team_whoever_created_it(make, acme, alice, bob, team_repo, thread):
    of_bob = make_hook(URL, bob, team=acme)
    member = acme.members.get(user=bob)
    remove_member(access=team_access_of(alice, acme), member=member)
    [step] = claimed(of_bob)
    assert step.attempt.payload.kind == "member-removed"
    assert settle(step, OK) is None


@pytest.mark.django_db
def test_events_of_another_team_or_of_one_person_are_never_sent(make, acme, alice, carol, hook):
    of_team = make_hook(URL, alice, team=acme)
    mine = make.repo(carol, "mine", by=carol)
    make.reply(make.thread(mine, by=carol), by=carol)
    make.repo(alice, "own", by=alice)
    assert claimed(of_team, hook) == []


@pytest.mark.django_db
def test_the_payload_is_the_record_of_the_event(make, api, hook, thread, alice, settings):
    settings.BASE_URL = "https://code.example.org"
    write(make, thread, alice, 1)
    [step] = claimed(hook)
    settle(step, OK)
    payload = step.attempt.payload
    record = api(alice).get(f"/events/{payload.event_id}").gives(200)
    expected = {"type": "reply-created", "timestamp": record["created_at"], "data": record}
    assert json.loads(payload.body) == expected
    delivery = last_delivery(hook)
    assert delivery.request_body.encode() == payload.body
    assert "webhook-signature" not in delivery.request_headers
    assert delivery.request_headers["webhook-id"] == payload.message_id
