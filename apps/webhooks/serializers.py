"""The requests and the records of webhooks and deliveries."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.controls import NO_CONTROLS, name_problem
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    TimestampField,
)
from apps.events.kinds import Kind
from apps.webhooks.models import (
    DESCRIPTION_MAX,
    URL_MAX,
    Delivery,
    DeliveryStatus,
    DisabledReason,
    Resume,
    State,
    Webhook,
)

KEEP_OLD_HOURS_MAX = 72


class CreateWebhook(RequestSerializer):
    url = StrictCharField(max_length=URL_MAX)
    kinds = serializers.ListField(
        child=StrictChoiceField(Kind), max_length=len(Kind), required=False
    )
    is_active = StrictBooleanField(required=False)
    description = RuleCharField(
        problem=name_problem,
        max_length=DESCRIPTION_MAX,
        pattern=NO_CONTROLS,
        allow_blank=True,
        required=False,
    )


class UpdateWebhook(CreateWebhook):
    url = StrictCharField(max_length=URL_MAX, required=False)
    resume = StrictChoiceField(Resume, required=False)


class RotateSecret(RequestSerializer):
    keep_old_hours = StrictIntegerField(min_value=0, max_value=KEEP_OLD_HOURS_MAX, required=False)


class WebhookRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    url = serializers.CharField()
    kinds = serializers.ListField(child=serializers.CharField())
    is_active = serializers.BooleanField()
    state = serializers.ChoiceField([str(state) for state in State])
    disabled_reason = serializers.ChoiceField(
        [str(reason) for reason in DisabledReason], allow_null=True
    )
    description = serializers.CharField(allow_blank=True)
    secret_hint = serializers.CharField()
    cursor_event_id = serializers.IntegerField()
    lag = serializers.IntegerField()
    consecutive_failures = serializers.IntegerField()
    next_attempt_at = TimestampField(allow_null=True)
    last_success_at = TimestampField(allow_null=True)
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()
    created_at = TimestampField()
    updated_at = TimestampField()


class NewWebhookRecord(WebhookRecord):
    secret = serializers.CharField()


class DeliveryRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    event_id = serializers.IntegerField(allow_null=True)
    kind = serializers.CharField()
    attempt = serializers.IntegerField()
    is_redelivery = serializers.BooleanField()
    status = serializers.ChoiceField([str(status) for status in DeliveryStatus])
    response_status = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    duration_ms = serializers.IntegerField()
    created_at = TimestampField()


class FullDeliveryRecord(DeliveryRecord):
    request_headers = serializers.DictField(child=serializers.CharField())
    request_body = serializers.CharField()
    response_headers = serializers.DictField(child=serializers.CharField())
    response_body = serializers.CharField(allow_blank=True)


def webhook_record(webhook: Webhook) -> dict[str, Any]:
    """The record of a row of `queries.list_webhooks`."""
    return {
        "uuid": webhook.uuid,
        "url": webhook.url,
        "kinds": webhook.kinds,
        "is_active": webhook.is_active,
        "state": webhook.state,
        "disabled_reason": webhook.disabled_reason or None,
        "description": webhook.description,
        "secret_hint": webhook.secret_hint,
        "cursor_event_id": webhook.cursor_event_id,
        "lag": webhook.lag,
        "consecutive_failures": webhook.consecutive_failures,
        "next_attempt_at": webhook.next_attempt_at,
        "last_success_at": webhook.last_success_at,
        "created_by_uuid": webhook.created_by.uuid,
        "created_by_username": webhook.created_by.username,
        "created_by_is_bot": webhook.created_by.is_bot,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


def delivery_record(delivery: Delivery) -> dict[str, Any]:
    return {
        "uuid": delivery.uuid,
        "event_id": delivery.event_id,
        "kind": delivery.kind,
        "attempt": delivery.attempt,
        "is_redelivery": delivery.is_redelivery,
        "status": delivery.status,
        "response_status": delivery.response_status,
        "error": delivery.error or None,
        "duration_ms": delivery.duration_ms,
        "created_at": delivery.created_at,
    }


def full_delivery_record(delivery: Delivery) -> dict[str, Any]:
    """As `delivery_record`, with request and response."""
    return {
        **delivery_record(delivery),
        "request_headers": delivery.request_headers,
        "request_body": delivery.request_body,
        "response_headers": delivery.response_headers,
        "response_body": delivery.response_body,
    }
