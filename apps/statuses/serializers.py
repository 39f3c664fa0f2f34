"""The request and the records of statuses of commits."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.controls import NO_CONTROLS, name_problem
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictChoiceField,
    TimestampField,
)
from apps.repos.contexts import CONTEXT, CONTEXT_MAX, context_problem
from apps.statuses.models import (
    DESCRIPTION_MAX,
    NO_STATUS,
    URL_MAX,
    CommitStatus,
    StatusState,
)
from apps.statuses.rules import url_problem

STATES = [*map(str, StatusState)]
COMBINED = [NO_STATUS, "pending", "success", "failure"]


class CreateStatus(RequestSerializer):
    # Ignored, because DRF removes fields from the class: this replaces no property.
    context = RuleCharField(  # type: ignore[assignment]
        problem=context_problem, max_length=CONTEXT_MAX, pattern=CONTEXT.pattern
    )
    state = StrictChoiceField(STATES)
    description = RuleCharField(
        problem=name_problem,
        max_length=DESCRIPTION_MAX,
        pattern=NO_CONTROLS,
        allow_blank=True,
        required=False,
    )
    target_url = RuleCharField(
        problem=url_problem, max_length=URL_MAX, pattern=r"https?://[\x21-\x7e]+", required=False
    )


class StatusRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    sha = serializers.CharField()
    # Ignored, because DRF removes fields from the class: this replaces no property.
    context = serializers.CharField()  # type: ignore[assignment]
    state = serializers.ChoiceField(STATES)
    description = serializers.CharField(allow_blank=True)
    target_url = serializers.CharField(allow_null=True)
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()
    created_at = TimestampField()


class ChecksRecord(RecordSerializer):
    """The combined state of a commit."""

    state = serializers.ChoiceField(COMBINED)
    sha = serializers.CharField(allow_null=True)


class CombinedStatusRecord(RecordSerializer):
    sha = serializers.CharField()
    state = serializers.ChoiceField(COMBINED)
    contexts = StatusRecord(many=True)
    contexts_truncated = serializers.BooleanField()


def status_record(status: CommitStatus) -> dict[str, Any]:
    """The record of a status whose `created_by` is loaded."""
    return {
        "uuid": status.uuid,
        "sha": status.sha,
        "context": status.context,
        "state": status.state,
        "description": status.description,
        "target_url": status.target_url or None,
        "created_by_uuid": status.created_by.uuid,
        "created_by_username": status.created_by.username,
        "created_by_is_bot": status.created_by.is_bot,
        "created_at": status.created_at,
    }
