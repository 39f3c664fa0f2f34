"""The dispatcher with real receivers that fail, are killed, or do not answer."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from functools import partial

import pytest
from django.db import IntegrityError, OperationalError, connection
from django.utils import timezone
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from apps.core.errors import Unavailable
from apps.events.models import Event
from apps.webhooks import delivery, dispatch, queue
from apps.webhooks.actions import rotate_secret
from apps.webhooks.jobs import old_deliveries, prune_deliveries
from apps.webhooks.models import Delivery, DeliveryStatus, Webhook
from tests.principals import access_of
from tests.waiting import eventually
from tests.webhooks.hooks import (
    OK,
    claimed,
    dispatchers,
    failing_at_random,
    ids_of,
    last_delivery,
    make_hook,
    wait_for,
    write,
)
from tests.webhooks.receivers import Receiver, first_arrivals

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("on_this_machine"),
]


@pytest.fixture
def thread(make, team_repo, alice):
    return make.thread(team_repo, by=alice)


def follow(receiver, by, repo, **fields):
    """A webhook of a repository at this receiver, and a function that lists its events."""
    hook = make_hook(receiver.url, by, repo, **fields)
    return hook, partial(ids_of, hook.key, hook.cursor_event_id)


def test_a_receiver_that_fails_at_random_gets_all_events_in_order_and_signed(
    make, team_repo, thread, alice, at_once
):
    with Receiver(failing_at_random(7)) as receiver, dispatchers():
        hook, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 25)
        wait_for(receiver, expected)
        assert len(receiver.requests) > 25
        assert first_arrivals(receiver.ids) == expected()
        for request in receiver.requests:
            request.verify(hook.secret)
        with pytest.raises(WebhookVerificationError):
            Verifier(hook.secret).verify(b"{}", receiver.requests[0].headers)


def test_a_receiver_that_was_killed_gets_all_events_when_it_is_back(
    make, team_repo, thread, alice, at_once
):
    # No other server has this address, and so none takes the port while the receiver is away.
    with Receiver(host="127.0.0.9") as receiver, dispatchers():
        hook, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 3)
        wait_for(receiver, expected)
        receiver.__exit__()
        write(make, thread, alice, 5)
        eventually(lambda: Delivery.objects.filter(error="refused").count() > 1)
        receiver.__enter__()
        wait_for(receiver, expected)
        assert receiver.accepted == expected()
    hook.refresh_from_db()
    assert (hook.consecutive_failures, hook.next_attempt_at, hook.lease_token) == (0, None, None)
    assert hook.last_success_at is not None


def test_several_dispatchers_send_each_event_once(make, team_repo, thread, alice, at_once):
    with Receiver() as receiver, dispatchers(3):
        _, expected = follow(receiver, alice, team_repo)
        for _ in range(5):
            write(make, thread, alice, 5)
            wait_for(receiver, expected)
        assert receiver.ids == expected()


def test_slow_receivers_delay_no_others(make, acme, alice, at_once):
    release = threading.Event()
    slow_repo, repo = make.repo(acme, "slow", by=alice), make.repo(acme, "fast", by=alice)
    slow_thread, thread = make.thread(slow_repo, by=alice), make.thread(repo, by=alice)
    with (
        Receiver(lambda _: release.wait(60) and 204) as slow,
        Receiver(host="127.0.0.2") as receiver,
        dispatchers(),
    ):
        _, expected_slowly = follow(slow, alice, slow_repo)
        make_others = [Webhook(**row_of(slow.url, alice, slow_repo)) for _ in range(30)]
        Webhook.objects.bulk_create(make_others)
        _, expected = follow(receiver, alice, repo)
        write(make, slow_thread, alice, 1)
        eventually(lambda: slow.connections == 31)
        write(make, thread, alice, 10)
        wait_for(receiver, expected)
        assert slow.accepted == []
        release.set()
        wait_for(slow, expected_slowly)


def test_webhooks_take_turns_if_there_are_more_than_places(
    make, team_repo, thread, alice, at_once, monkeypatch
):
    monkeypatch.setattr(dispatch, "PLACES", 1)
    monkeypatch.setattr(dispatch, "TURN", 0.0)
    with Receiver() as receiver:
        hooks = [make_hook(receiver.url, alice, team_repo) for _ in range(3)]
        write(make, thread, alice, 4)
        with dispatchers():
            eventually(lambda: len(receiver.requests) == 12)
    turns = [request.headers["x-guildhall-webhook"] for request in receiver.requests]
    assert turns == 4 * [str(hook.uuid) for hook in hooks]


def row_of(url, by, repo):
    cursor = Event.objects.newest_id()
    return {"url": url, "repo": repo, "created_by": by, "cursor_event_id": cursor}


def test_a_thousand_idle_webhooks_are_not_written(make, acme, team_repo, thread, alice, at_once):
    other = make.repo(acme, "other", by=alice)
    rows = row_of("http://127.0.0.1:9/", alice, other)
    Webhook.objects.bulk_create(Webhook(**rows) for _ in range(1000))
    before = [*Webhook.objects.filter(repo=other).order_by("pk").values()]
    with Receiver() as receiver, dispatchers():
        _, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 10)
        wait_for(receiver, expected)
    assert [*Webhook.objects.filter(repo=other).order_by("pk").values()] == before


def test_two_of_a_host_recover_at_once(make, team_repo, thread, alice, at_once):
    release, entered = threading.Event(), threading.Semaphore(0)

    def answer(_):
        entered.release()
        return release.wait(60) and 204

    with Receiver(answer) as receiver:
        due = {"consecutive_failures": 1, "next_attempt_at": timezone.now()}
        rows = row_of(receiver.url, alice, team_repo) | due
        Webhook.objects.bulk_create(Webhook(**rows) for _ in range(6))
        write(make, thread, alice, 1)
        with dispatchers():
            assert entered.acquire(timeout=60) and entered.acquire(timeout=60)
            assert not entered.acquire(timeout=1)
            assert receiver.connections == 2
            release.set()
            eventually(lambda: len(receiver.requests) == 6)


def test_a_dispatcher_that_ends_waits_for_its_attempts_and_releases_the_leases(
    make, team_repo, thread, alice, at_once
):
    release = threading.Event()
    with Receiver(lambda _: release.wait(60) and 204) as receiver:
        hook, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 2)
        with dispatchers():
            eventually(lambda: receiver.connections)
            threading.Timer(0.5, release.set).start()
        assert receiver.accepted == expected()[:1]
        hook.refresh_from_db()
        assert (hook.lease_token, hook.cursor_event_id) == (None, expected()[0])


def test_after_a_rotation_both_secrets_sign_until_the_old_one_ends(
    make, team_repo, thread, alice, at_once
):
    with Receiver() as receiver, dispatchers():
        hook, expected = follow(receiver, alice, team_repo)
        old = hook.secret
        rotate_secret(access=access_of(alice, team_repo), webhook=hook, keep_old_hours=24)
        write(make, thread, alice, 1)
        wait_for(receiver, expected)
        [both] = receiver.requests
        assert len(both.headers["webhook-signature"].split()) == 2
        both.verify(old)
        both.verify(hook.secret)
        Webhook.objects.update(old_secret_until=timezone.now())
        write(make, thread, alice, 1)
        wait_for(receiver, expected)
        one = receiver.requests[1]
        one.verify(hook.secret)
        with pytest.raises(WebhookVerificationError):
            one.verify(old)


def test_a_ping_and_a_redelivery_are_outside_the_queue(make, team_repo, thread, alice, at_once):
    with Receiver() as receiver:
        hook, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 2)
        with dispatchers():
            wait_for(receiver, expected)
        Webhook.objects.update(is_active=False)
        before = Webhook.objects.values().get()
        ping = delivery.send_ping(hook)
        again = delivery.redeliver(Delivery.objects.order_by("pk")[0])
        ping_again = delivery.redeliver(ping)
        assert Webhook.objects.values().get() == before
        sent = receiver.requests
        assert [sent[0].headers["webhook-id"], sent[2].headers["webhook-id"]] == [
            sent[3].headers["webhook-id"],
            sent[4].headers["webhook-id"],
        ]
        assert sent[0].record == sent[3].record and sent[2].body == sent[4].body
        assert [ping.kind, ping.event_id, ping.is_redelivery] == ["ping", None, False]
        assert again.is_redelivery and again.event_id == expected()[0]
        assert ping_again == last_delivery(hook) and ping_again.response_status == 204
        for request in receiver.requests:
            request.verify(hook.secret)


def test_pings_of_one_webhook_wait_for_each_other_by_a_refusal(alice, team_repo):
    hook = make_hook("http://127.0.0.1:9/", alice, team_repo)
    with delivery.slots.slot(str(hook.pk)), pytest.raises(Unavailable):
        delivery.send_ping(hook)
    assert delivery.send_ping(hook).error == "refused"


@pytest.mark.parametrize("sends", ["ping", "redeliver"])
def test_an_attempt_of_a_webhook_that_is_deleted_meanwhile_is_not_found(
    of_repo, make_delivery, sends
):
    def delete(_):
        Webhook.objects.all().delete()
        connection.close()  # that of the receiver's thread
        return 204

    with Receiver(delete) as receiver:
        path = f"{of_repo.path}/{of_repo.create(url=receiver.url)['uuid']}"
        sent = make_delivery(Webhook.objects.get(), event_id=None, request_body="{}")
        last = {"ping": "ping", "redeliver": f"deliveries/{sent.uuid}/redeliver"}[sends]
        of_repo.api.post(f"{path}/{last}").fails(404, "not_found")
    assert not Delivery.objects.exists()


def test_finding_old_deliveries_reads_an_index():
    if connection.vendor == "sqlite":
        rows = old_deliveries(timezone.now()).values_list("pk")[:1000]
        assert "created_at" in rows.explain(), rows.explain()


def test_old_deliveries_are_deleted_and_the_last_thousand_stay(alice, team_repo, monkeypatch):
    monkeypatch.setattr("apps.webhooks.jobs.STORED_PER_WEBHOOK", 3)
    hooks = [make_hook("http://127.0.0.1:9/", alice, team_repo) for _ in range(2)]
    for hook in hooks:
        rows = [
            Delivery(webhook=hook, kind="ping", status=DeliveryStatus.FAILED, duration_ms=1)
            for _ in range(5)
        ]
        Delivery.objects.bulk_create(rows)
    old = Delivery.objects.filter(webhook=hooks[0]).order_by("-pk")[0]
    Delivery.objects.filter(pk=old.pk).update(created_at=timezone.now() - dt.timedelta(days=31))
    assert not prune_deliveries()
    for hook in hooks:
        newest = Delivery.objects.filter(webhook=hook).order_by("-pk")
        assert len(newest) == 3
        assert old not in newest
    assert prune_deliveries() is False
    assert Delivery.objects.count() == 6


def test_a_dispatcher_that_fails_begins_again(
    make, team_repo, thread, alice, at_once, monkeypatch, caplog
):
    real, failures = dispatch.Dispatcher.follow, [RuntimeError("as asked")]

    async def follow_or_fail(self):
        if failures:
            raise failures.pop()
        await real(self)

    monkeypatch.setattr(dispatch.Dispatcher, "follow", follow_or_fail)
    with Receiver() as receiver, dispatchers():
        _, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 1)
        wait_for(receiver, expected)
    assert "The dispatcher of webhooks failed" in caplog.text
    assert Delivery.objects.count() == 1


def test_webhooks_that_the_database_failed_to_claim_are_claimed_again(
    make, team_repo, thread, alice, at_once, monkeypatch
):
    real, failures = queue.claim, [OperationalError("as asked")]

    def claim_or_fail(*args):
        if failures:
            raise failures.pop()
        return real(*args)

    monkeypatch.setattr(queue, "claim", claim_or_fail)
    monkeypatch.setattr(dispatch, "SWEEP_SECONDS", 10**6)
    with Receiver() as receiver, dispatchers():
        _, expected = follow(receiver, alice, team_repo)
        write(make, thread, alice, 1)
        wait_for(receiver, expected)
    assert not failures


def test_an_outcome_that_cannot_be_stored_affects_no_other(
    make, team_repo, thread, alice, monkeypatch
):
    hooks = [make_hook("http://127.0.0.1:9/", alice, team_repo) for _ in range(3)]
    real, broken = queue.store_outcome, hooks[1]

    def store_or_fail(sent, webhook, *, goes_on):
        if webhook.pk == broken.pk:
            raise IntegrityError("as asked")
        return real(sent, webhook, goes_on=goes_on)

    monkeypatch.setattr(queue, "store_outcome", store_or_fail)
    write(make, thread, alice, 1)
    steps = claimed(*hooks)

    async def store():
        loop = asyncio.get_running_loop()
        batch = [(queue.Sent(step, OK), loop.create_future()) for step in steps]
        await dispatch.Dispatcher().store(batch)
        return await asyncio.gather(*(future for _, future in batch), return_exceptions=True)

    first, error, third = asyncio.run(store())
    assert first is third is None and isinstance(error, IntegrityError)
    assert {row.webhook_id for row in Delivery.objects.all()} == {hooks[0].pk, hooks[2].pk}
