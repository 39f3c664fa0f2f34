"""Requests and records of the site."""

from __future__ import annotations

from typing import Any

from django.forms.models import model_to_dict
from rest_framework import serializers

from apps.core.durations import EXPECTED, parse_duration
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
from apps.site.models import InviteCreators, RateLimit, SiteSettings
from apps.site.rules import RATE_SCOPE_MAX, REQUESTS_MAX, WINDOW_MAX


def duration_problem(text: str) -> str | None:
    try:
        parse_duration(text)
    except ValueError as error:
        return str(error)
    return None


class UpdateSiteSettings(RequestSerializer):
    rate_limits_enabled = StrictBooleanField(required=False)
    signup_invite_creators = StrictChoiceField(InviteCreators, required=False)
    signup_invite_max_per_24h = StrictIntegerField(required=False, min_value=0, max_value=100_000)
    signup_invite_min_account_age = RuleCharField(
        problem=duration_problem,
        max_length=100,
        required=False,
        help_text=f"{EXPECTED.capitalize()}.",
    )
    signups_enabled = StrictBooleanField(required=False)
    signups_require_invite = StrictBooleanField(required=False)


class SiteSettingsRecord(RecordSerializer):
    rate_limits_enabled = serializers.BooleanField()
    signup_invite_creators = serializers.ChoiceField([str(who) for who in InviteCreators])
    signup_invite_max_per_24h = serializers.IntegerField()
    signup_invite_min_account_age = serializers.CharField()
    signups_enabled = serializers.BooleanField()
    signups_require_invite = serializers.BooleanField()
    created_at = TimestampField()
    updated_at = TimestampField()
    updated_by_username = serializers.CharField(allow_null=True)


def site_settings_record(row: SiteSettings | RateLimit) -> dict[str, Any]:
    """The editable fields of a row, and its last change. Needs `updated_by` loaded."""
    return {
        **model_to_dict(row, exclude=["id"]),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "updated_by_username": row.updated_by.username if row.updated_by else None,
    }


RATE_SCOPE_HELP = (
    "`api`, `anonymous`, `authenticated`, `write`, `git`, `stream`, `login`, `signup`, a tag of "
    "this document, or `user:<username>`."
)


class RateScopeField(StrictCharField):
    """A text that `rules.checked_rate_scope` validates."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=RATE_SCOPE_MAX, help_text=RATE_SCOPE_HELP, **options)


class CreateRateLimit(RequestSerializer):
    scope = RateScopeField()
    max_requests = StrictIntegerField(min_value=1, max_value=REQUESTS_MAX)
    window_seconds = StrictIntegerField(min_value=1, max_value=WINDOW_MAX)
    is_enabled = StrictBooleanField()


class UpdateRateLimit(RequestSerializer):
    scope = RateScopeField(required=False)
    max_requests = StrictIntegerField(min_value=1, max_value=REQUESTS_MAX, required=False)
    window_seconds = StrictIntegerField(min_value=1, max_value=WINDOW_MAX, required=False)
    is_enabled = StrictBooleanField(required=False)


class RateLimitRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    scope = RateScopeField()
    max_requests = serializers.IntegerField()
    window_seconds = serializers.IntegerField()
    is_enabled = serializers.BooleanField()
    created_at = TimestampField()
    updated_at = TimestampField()
    updated_by_username = serializers.CharField(allow_null=True)


def rate_limit_record(row: RateLimit) -> dict[str, Any]:
    """As `site_settings_record`."""
    return {"uuid": row.uuid, **site_settings_record(row)}
