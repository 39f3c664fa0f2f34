"""Signatures and headers of a request, by the specification of Standard Webhooks 1.0."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone
from standardwebhooks import Webhook as Signer

from apps.webhooks.models import Webhook

SIGNATURE = "webhook-signature"


def unsigned_headers(webhook: Webhook, message_id: str, now: dt.datetime) -> dict[str, str]:
    """The headers of an attempt at this time, without the signature.

    `message_id` is the same for each attempt to send an event, and for each receiver.
    """
    return {
        "content-type": "application/json",
        "user-agent": "Guildhall",
        "accept-encoding": "identity",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "x-guildhall-webhook": str(webhook.uuid),
    }


def signature(webhook: Webhook, message_id: str, now: dt.datetime, body: bytes) -> str:
    """The signature of exactly these bytes, and a second one as long as the old secret is valid."""
    secrets = [webhook.secret]
    until = webhook.old_secret_until
    if webhook.old_secret and until is not None and until > timezone.now():
        secrets.append(webhook.old_secret)
    text = body.decode()  # the package encodes it again, to the same bytes
    return " ".join(Signer(secret).sign(message_id, now, text) for secret in secrets)
