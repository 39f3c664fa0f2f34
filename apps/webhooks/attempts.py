"""One attempt to send an event or a ping: its bytes, its headers, and its row in the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone

from apps.core import json
from apps.core.views import site_url
from apps.events.models import EventRow
from apps.events.serializers import event_records
from apps.webhooks.addresses import address_of
from apps.webhooks.models import PING, Delivery, DeliveryStatus, Webhook
from apps.webhooks.sending import Message, Outcome
from apps.webhooks.signatures import SIGNATURE, signature, unsigned_headers


@dataclass(frozen=True)
class Payload:
    """The bytes to send about an event, or about none, with the id that receivers see."""

    event_id: int | None
    kind: str
    message_id: str
    body: bytes


def payloads_of(events: Sequence[EventRow]) -> list[Payload]:
    """The payloads of these events. Looks up all names at once."""
    records = event_records(events, site_url())
    return [
        Payload(
            event.id,
            event.kind,
            f"evt_{event.id}",
            body_of(event.kind, event.created_at, record),
        )
        for event, record in zip(events, records, strict=True)
    ]


def ping_payload(webhook: Webhook, now: dt.datetime) -> Payload:
    """The payload of a ping: the uuid of the webhook, its kinds, and the name of its owner."""
    data = {
        "webhook_uuid": webhook.uuid,
        "kinds": webhook.kinds,
        "path": webhook.owner_path or None,
    }
    message_id = f"ping_{webhook.uuid.hex}_{int(now.timestamp() * 1000)}"
    return Payload(None, PING, message_id, body_of(PING, now, data))


def body_of(kind: str, time: dt.datetime, data: object) -> bytes:
    return json.dumps({"type": kind, "timestamp": time, "data": data})


class Attempt:
    """An attempt to send a payload now, signed with the present secrets of the webhook."""

    def __init__(self, webhook: Webhook, payload: Payload) -> None:
        self.webhook, self.payload = webhook, payload
        self.now = timezone.now()
        self.headers = unsigned_headers(webhook, payload.message_id, self.now)
        signed = signature(webhook, payload.message_id, self.now, payload.body)
        self.message = Message(
            address_of(webhook.url), {**self.headers, SIGNATURE: signed}, payload.body
        )

    def delivery(self, outcome: Outcome, *, number: int, is_redelivery: bool) -> Delivery:
        """The row of this attempt, not saved. `number` is 1 for the first attempt."""
        status = DeliveryStatus.SUCCEEDED if outcome.has_succeeded else DeliveryStatus.FAILED
        return Delivery(
            webhook=self.webhook,
            event_id=self.payload.event_id,
            kind=self.payload.kind,
            attempt=number,
            is_redelivery=is_redelivery,
            status=status,
            response_status=outcome.status,
            error=outcome.error,
            duration_ms=outcome.duration_ms,
            created_at=self.now,
            request_headers=self.headers,
            request_body=self.payload.body.decode(),
            response_headers=outcome.headers,
            response_body=outcome.body,
        )
