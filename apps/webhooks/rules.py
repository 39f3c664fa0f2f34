"""Sentences for people about the state of webhooks and the outcome of deliveries."""

from __future__ import annotations

from apps.webhooks.models import Delivery, DisabledReason, Webhook

ERRORS = {
    "timeout": "no complete answer within 15 seconds",
    "refused": "the connection was refused",
    "dns": "the name has no address",
    "tls": "the certificate is not valid, or there is no TLS",
    "blocked_address": "webhooks may not send to this address",
    "redirect": "the receiver redirects, which is not followed",
    "status": "the receiver did not accept it",
    "disconnected": "the receiver closed the connection",
    "protocol": "the answer is not HTTP",
}
"""By the `error` of a delivery."""
REASONS = {
    DisabledReason.MANUAL: "A person switched it off.",
    DisabledReason.GAVE_UP: "Ten attempts to deliver an event failed, over three days.",
    DisabledReason.GONE: "The receiver answered 410: it wants no more events.",
}


def outcome(delivery: Delivery) -> str:
    """The outcome of a delivery in words, such as "200 in 12 ms"."""
    time = f"in {delivery.duration_ms:,} ms"
    reason = ERRORS.get(delivery.error, delivery.error.replace("_", " "))
    status = None if delivery.response_status is None else f"{delivery.response_status}"
    return ", ".join(filter(None, [f"{status} {time}" if status else reason, status and reason]))


def reason_text(webhook: Webhook) -> str:
    """The reason why a webhook is not active; "" if it is."""
    reason = webhook.disabled_reason
    return REASONS[DisabledReason(reason)] if reason else ""
