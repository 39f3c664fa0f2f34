"""Webhooks of tests, and the dispatcher that sends their events within the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from apps.accounts.models import User
from apps.events.models import Event, Key
from apps.repos.models import Repo
from apps.threads.models import Thread
from apps.webhooks import dispatch, queue
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.queue import Admission, Sent, Step
from apps.webhooks.sending import Outcome
from tests.by_actions import MakeByActions
from tests.waiting import eventually
from tests.webhooks.receivers import Received, Receiver, first_arrivals

OK = Outcome(1, status=204)
BROKEN = Outcome(1, error="status", status=500)


def make_hook(url: str, by: User, repo: Repo | None = None, **fields: Any) -> Webhook:
    """A webhook that begins with the next event."""
    cursor = Event.objects.newest_id()
    row = {"repo": repo, "url": url, "created_by": by, "cursor_event_id": cursor, **fields}
    return Webhook.objects.create(**row)


@contextmanager
def dispatchers(count: int = 1) -> Iterator[None]:
    """Run this number of dispatchers at once in the block."""
    if not count:
        yield
        return
    with dispatch.dispatching(), dispatchers(count - 1):
        yield


def ids_of(key: Key, after: int = 0) -> list[int]:
    """The ids of the events of a key, in order."""
    events = Event.objects.of(key).filter(id__gt=after).order_by("id")
    return [*events.values_list("id", flat=True)]


def write(make: MakeByActions, thread: Thread, by: User, count: int) -> None:
    """Record this number of events of the thread's repository."""
    for _ in range(count):
        make.reply(thread, by=by)


def has_all(receiver: Receiver, expected: Callable[[], list[int]]) -> bool:
    return first_arrivals(receiver.accepted) == expected()


def wait_for(receiver: Receiver, expected: Callable[[], list[int]]) -> None:
    """Wait until the receiver has accepted exactly these events, in their order."""
    eventually(partial(has_all, receiver, expected))


def failing_at_random(seed: int) -> Callable[[Received], int]:
    """An answer that is 500 for half of the requests."""
    chance = Random(seed)  # noqa: S311 - no secret
    return lambda _: chance.choice([500, 204])


def claimed(*webhooks: Webhook) -> list[Step]:
    """The steps of these webhooks, whose leases are taken."""
    admission = Admission(100, 100, Counter())
    return queue.claim([webhook.pk for webhook in webhooks], admission)[0]


def settle(step: Step, outcome: Outcome, *, goes_on: bool = True) -> Step | None:
    """Store the outcome of a step; the step after it."""
    [following] = queue.settle([Sent(step, outcome)], goes_on=goes_on)
    return following


def next_step(step: Step) -> Step:
    """The step after this one has succeeded."""
    following = settle(step, OK)
    assert following is not None
    return following


def fail_once(webhook: Webhook, outcome: Outcome = BROKEN) -> None:
    """Let an attempt fail that is due now."""
    Webhook.objects.filter(pk=webhook.pk).update(next_attempt_at=None)
    [step] = claimed(webhook)
    assert settle(step, outcome) is None
    webhook.refresh_from_db()


def last_delivery(webhook: Webhook) -> Delivery:
    delivery = webhook.deliveries.order_by("-pk").first()
    assert delivery is not None
    return delivery
