"""Attempts that a person requests: a ping, and a redelivery. They are outside the queue."""

from __future__ import annotations

import asyncio

from django.db import transaction
from django.utils import timezone

from apps.core import metrics
from apps.core.errors import PLAIN, NotFound, Unavailable
from apps.core.locks import give_back_connection, lock
from apps.core.slots import Slots
from apps.webhooks.attempts import Attempt, Payload, payloads_of, ping_payload
from apps.webhooks.events import event_in_scope
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.sending import Message, Outcome, Sender

RETRY_AFTER = 5
"""Seconds in `Retry-After`."""


def busy(full: str) -> Unavailable:
    """503 if too many requests wait for receivers."""
    metrics.slots_refused.add("webhooks")
    return Unavailable(*PLAIN[503], headers={"Retry-After": str(RETRY_AFTER)})


slots = Slots(4, 1, refusal=busy)
"""Each such attempt keeps a server thread for up to 15 seconds: one for each webhook."""


def send_ping(webhook: Webhook) -> Delivery:
    """Send a ping now, also if the webhook is not active, and return its delivery.

    Takes at most 15 seconds; 503 if too many of these attempts are in flight. Call it outside a
    transaction.
    """
    return _attempt(webhook, ping_payload(webhook, timezone.now()), is_redelivery=False)


def redeliver(delivery: Delivery) -> Delivery:
    """Send the event or ping of a delivery again, with the same id, and return the new delivery.

    The event is rendered again. 404 if the webhook may not send it any more. Takes at most 15
    seconds. Call it outside a transaction.
    """
    webhook = delivery.webhook
    if delivery.event_id is None:
        message_id = delivery.request_headers["webhook-id"]
        payload = Payload(None, delivery.kind, message_id, delivery.request_body.encode())
    else:
        event = event_in_scope(webhook, delivery.event_id)
        if event is None:
            raise NotFound("not_found", "This webhook may not send the event any more.")
        [payload] = payloads_of([event])
    return _attempt(webhook, payload, is_redelivery=True)


def _attempt(webhook: Webhook, payload: Payload, *, is_redelivery: bool) -> Delivery:
    with slots.slot(str(webhook.pk)):
        attempt = Attempt(webhook, payload)
        give_back_connection()
        outcome = asyncio.run(_send(attempt.message))
    delivery = attempt.delivery(outcome, number=1, is_redelivery=is_redelivery)
    with transaction.atomic():
        lock(Webhook(pk=webhook.pk))
        delivery.save(force_insert=True)
    metrics.webhook_deliveries.add(delivery.status)
    return delivery


async def _send(message: Message) -> Outcome:
    async with Sender() as sender:
        return await sender.send(message)
