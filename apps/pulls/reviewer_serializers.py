"""The requests and records of requested reviewers of a pull."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    StrictCharField,
    TimestampField,
)
from apps.core.slugs import USERNAME_MAX
from apps.pulls.models import Pull, ReviewRequest
from apps.pulls.review_requests import FULFILLING, PENDING
from apps.pulls.reviewer_suggestions import Suggestion
from apps.repos.protection_rules import NamesField


class UpdateReviewers(RequestSerializer):
    reviewers = NamesField(StrictCharField(max_length=USERNAME_MAX), required=True)


class RequestedReviewer(RecordSerializer):
    """A person who is asked for a review, and has not made it since."""

    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    requested_by_username = serializers.CharField()
    requested_at = TimestampField()


class ReviewRequestRecord(RequestedReviewer):
    state = serializers.ChoiceField([PENDING, *FULFILLING])
    review_uuid = serializers.UUIDField(allow_null=True)


class SuggestedReviewer(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    is_approver = serializers.BooleanField()
    changed_lines = serializers.IntegerField()


class ReviewersRecord(RecordSerializer):
    pull_number = serializers.IntegerField()
    reviewers = serializers.ListField(child=serializers.CharField())
    requests = ReviewRequestRecord(many=True)
    suggestions = SuggestedReviewer(many=True)


def requested_reviewer(request: ReviewRequest) -> dict[str, Any]:
    return {
        "user_uuid": request.user.uuid,
        "username": request.user.username,
        "requested_by_username": request.requested_by.username,
        "requested_at": request.requested_at,
    }


def reviewers_record(
    pull: Pull, requests: Iterable[Any], suggested: Iterable[Suggestion]
) -> dict[str, Any]:
    """The record of the requests of a pull, rows of `list_requests`."""
    records = [
        {
            **requested_reviewer(row),
            "state": row.review_status or PENDING,
            "review_uuid": row.review_uuid,
        }
        for row in requests
    ]
    return {
        "pull_number": pull.number,
        "reviewers": [row["username"] for row in records if row["state"] == PENDING],
        "requests": records,
        "suggestions": [*map(suggestion_record, suggested)],
    }


def suggestion_record(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "user_uuid": suggestion.user.uuid,
        "username": suggestion.user.username,
        "is_approver": suggestion.is_approver,
        "changed_lines": suggestion.changed_lines,
    }
