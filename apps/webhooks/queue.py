"""The queue of each webhook is the event log: its next event is the first one after its cursor.

A worker takes the lease of a webhook, sends one event, and stores the delivery and the new cursor
in one transaction, which checks the lease. No row is written for events that wait.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial

from django.db import transaction
from django.utils import timezone

from apps.core.errors import NotFound
from apps.events.models import Event, EventRow
from apps.webhooks.actions import disable_webhook
from apps.webhooks.addresses import address_of
from apps.webhooks.attempts import Attempt, Payload, payloads_of
from apps.webhooks.events import has_skipped, is_due, next_event
from apps.webhooks.models import Delivery, DisabledReason, Webhook
from apps.webhooks.sending import Outcome

LEASE = dt.timedelta(seconds=30)
"""More than an attempt takes. After a crash, the webhook is due again when it has expired."""
BACK_OFF = tuple(
    dt.timedelta(seconds=seconds)
    for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""The waits after each failed attempt, by the specification of Standard Webhooks: 75 hours in all.
After one more failure the webhook is disabled.
"""
SPREAD = 0.2
"""Each wait is longer or shorter by a random part, at most this one."""
RETRY_AFTER_MAX = dt.timedelta(hours=1)
OBEYED = (429, 503)
"""Statuses whose `Retry-After` counts."""
GONE = 410
SKIP = 1000
"""After so many events that it does not send, the cursor of a webhook moves past them."""
PER_HOST = 2
"""Webhooks that recover from failures, of one host, to which one worker sends at once."""


@dataclass(frozen=True)
class Step:
    """The next event of a webhook whose lease this worker holds, and the attempt to send it.

    `cursor`: the cursor before it. `is_recovering`: attempts have failed since it last caught up.
    """

    webhook: Webhook
    token: uuid.UUID
    cursor: int
    attempt: Attempt
    is_recovering: bool


class Admission:
    """Decides which webhooks may be sent to now; the dispatcher counts those that are in work.

    Webhooks that recover from failures have places of their own. Their receivers may be slow, and
    must not delay others.
    """

    def __init__(self, places: int, recovering: int, hosts: Counter[str]) -> None:
        self.places, self.recovering, self.hosts = places, recovering, hosts

    def has_place(self, webhook: Webhook) -> bool:
        """Whether a webhook that has an event to send may be sent to now."""
        if not webhook.consecutive_failures:
            return self.places > 0
        host = address_of(webhook.url).host
        return min(self.places, self.recovering, PER_HOST - self.hosts[host]) > 0

    def take_place(self, webhook: Webhook) -> None:
        """Count a webhook that is sent to. One without an event must not take the place of others
        at each look.
        """
        self.places -= 1
        if webhook.consecutive_failures:
            self.recovering -= 1
            self.hosts[address_of(webhook.url).host] += 1


@dataclass(frozen=True)
class Sent:
    """A step whose event has been sent, and the result. `is_last`: the lease is then released."""

    step: Step
    outcome: Outcome
    is_last: bool = False


def claim(pks: Sequence[int], admission: Admission) -> tuple[list[Step], list[int]]:
    """Take the leases of those webhooks that are due and have an event to send. The first ones have
    precedence if places are few.

    Returns their steps, and the webhooks that have no place yet. Those that recover from failures
    are left out: they stay due. Webhooks without an event are not written to, unless they have
    skipped many.
    """
    newest = Event.objects.newest_id()
    postponed, chosen = list[int](), list[tuple[Webhook, EventRow]]()
    due = Webhook.objects.filter(is_due()).in_bulk(pks)
    for hook in (due[pk] for pk in pks if pk in due):
        if not admission.has_place(hook):
            postponed += [] if hook.consecutive_failures else [hook.pk]
        elif event := next_event(hook):
            admission.take_place(hook)
            chosen.append((hook, event))
        else:
            skip_events(hook, newest)
    token = uuid.uuid4()
    taken = take([hook for hook, _ in chosen], token)
    payloads = payloads_of([event for hook, event in chosen if hook.pk in taken])
    hooks = [hook for hook, _ in chosen if hook.pk in taken]
    return [*map(partial(first_step, token), hooks, payloads)], postponed


def first_step(token: uuid.UUID, webhook: Webhook, payload: Payload) -> Step:
    attempt, is_recovering = Attempt(webhook, payload), webhook.consecutive_failures > 0
    return Step(webhook, token, webhook.cursor_event_id, attempt, is_recovering)


@transaction.atomic
def take(webhooks: Sequence[Webhook], token: uuid.UUID) -> set[int]:
    """Take the leases of these webhooks, and return the ids of those that are taken: not of one
    that has changed since it was loaded, or to which another worker was faster.
    """
    # `updated_at`: the attempt must not go to an address that a person has replaced.
    loaded = {(hook.pk, hook.cursor_event_id, hook.updated_at) for hook in webhooks}
    due = Webhook.objects.filter(is_due(), pk__in=[hook.pk for hook in webhooks]).order_by("pk")
    locked = due.select_for_update(no_key=True, skip_locked=True)
    rows = locked.values_list("pk", "cursor_event_id", "updated_at")
    taken = {row[0] for row in rows if row in loaded}
    until = timezone.now() + LEASE
    Webhook.objects.filter(pk__in=taken).update(lease_token=token, lease_until=until)
    return taken


def skip_events(webhook: Webhook, newest: int) -> None:
    """Move the cursor to the event `newest` if the webhook has no event to send up to it, and would
    read many others again.
    """
    if has_skipped(webhook, newest, SKIP):
        rows = Webhook.objects.filter(is_due(), pk=webhook.pk)
        rows.filter(cursor_event_id=webhook.cursor_event_id).update(cursor_event_id=newest)


def settle(sent: Sequence[Sent], *, goes_on: bool) -> list[Step | None]:
    """Store deliveries of different webhooks with their consequences, in one transaction, and
    return the next step of each, or None.

    Nothing is stored for a webhook whose lease this worker has lost: another one sends the event
    again. Without a next step, or with `goes_on` false, the lease is released.
    """
    tokens = {one.step.webhook.pk: one.step.token for one in sent}
    with transaction.atomic():
        hooks = Webhook.objects.filter(pk__in=tokens).order_by("pk")
        locked = hooks.select_for_update(of=("self",), no_key=True)
        held = {hook.pk: hook for hook in locked if hook.is_held(tokens[hook.pk])}
        stored = [(one, held[one.step.webhook.pk]) for one in sent if one.step.webhook.pk in held]
        Delivery.objects.bulk_create(delivery_of(one, hook) for one, hook in stored)
        events = [
            store_outcome(one, hook, goes_on=goes_on and not one.is_last) for one, hook in stored
        ]
    for one, hook in stored:
        disable_if_hopeless(hook, one.outcome)
    rows = zip(stored, events, strict=True)
    steps = next_steps([(one.step, hook, event) for (one, hook), event in rows if event])
    return [steps.get(one.step.webhook.pk) for one in sent]


def delivery_of(sent: Sent, webhook: Webhook) -> Delivery:
    number = webhook.consecutive_failures + 1
    return sent.step.attempt.delivery(sent.outcome, number=number, is_redelivery=False)


def store_outcome(sent: Sent, webhook: Webhook, *, goes_on: bool) -> EventRow | None:
    """Write the state of a locked webhook after an attempt; returns its next event."""
    following = None
    if sent.outcome.has_succeeded:
        succeed(webhook, sent.step)
        following = next_event(webhook) if goes_on and webhook.is_active else None
    else:
        fail(webhook, sent.outcome)
    webhook.lease_token = sent.step.token if following else None
    webhook.lease_until = timezone.now() + LEASE if following else None
    webhook.save(update_fields=SETTLED)
    return following


def next_steps(following: Sequence[tuple[Step, Webhook, EventRow]]) -> dict[int, Step]:
    """The steps after these, by webhook, whose leases are extended."""
    payloads = payloads_of([event for _, _, event in following])
    return {
        hook.pk: Step(
            hook, step.token, hook.cursor_event_id, Attempt(hook, payload), step.is_recovering
        )
        for (step, hook, _), payload in zip(following, payloads, strict=True)
    }


SETTLED = (
    "cursor_event_id",
    "consecutive_failures",
    "next_attempt_at",
    "last_success_at",
    "lease_token",
    "lease_until",
)


def succeed(webhook: Webhook, step: Step) -> None:
    """Move the cursor to the sent event, unless a person has moved it meanwhile."""
    event_id = step.attempt.payload.event_id
    if webhook.cursor_event_id == step.cursor and event_id is not None:
        webhook.cursor_event_id = event_id
    webhook.consecutive_failures, webhook.next_attempt_at = 0, None
    webhook.last_success_at = timezone.now()


def fail(webhook: Webhook, outcome: Outcome) -> None:
    """Count a failure, and set the time of the next attempt."""
    webhook.consecutive_failures += 1
    wait = BACK_OFF[min(webhook.consecutive_failures, len(BACK_OFF)) - 1]
    wait *= random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - it spreads load
    webhook.next_attempt_at = timezone.now() + max(wait, retry_after(outcome))


def disable_if_hopeless(webhook: Webhook, outcome: Outcome) -> None:
    """Disable a webhook after 410, and after the last attempt.

    This is a transaction of its own, as it records an event: a holder of the lock of the log must
    not wait for other webhooks. If the worker dies before it, one more attempt is made.
    """
    if outcome.has_succeeded or not webhook.is_active:
        return
    is_last = webhook.consecutive_failures > len(BACK_OFF)
    if outcome.status == GONE or is_last:
        reason = DisabledReason.GONE if outcome.status == GONE else DisabledReason.GAVE_UP
        with suppress(NotFound):  # it has been deleted
            disable_webhook(webhook=webhook, reason=reason)


def retry_after(outcome: Outcome) -> dt.timedelta:
    """The wait that `Retry-After` asks for, if it is at most an hour; else none."""
    text = outcome.headers.get("retry-after", "")
    if outcome.status not in OBEYED or not text:
        return dt.timedelta()
    try:
        wait = (
            dt.timedelta(seconds=int(text[:9]))
            if text.isdecimal() and text.isascii()
            else parsedate_to_datetime(text) - timezone.now()
        )
    except (TypeError, ValueError, OverflowError):
        # Neither seconds nor a date, a date without a time zone, or one with a huge number.
        return dt.timedelta()
    return wait if dt.timedelta() < wait <= RETRY_AFTER_MAX else dt.timedelta()
