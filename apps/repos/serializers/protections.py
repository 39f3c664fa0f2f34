"""Requests and records of branch protections and their approvers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictCharField,
    TimestampField,
)
from apps.repos.models import PATTERN_MAX, Approver, Protection
from apps.repos.rules import pattern_problem


class CreateProtection(RequestSerializer):
    branch = RuleCharField(problem=pattern_problem, max_length=PATTERN_MAX)


class UpdateProtection(RequestSerializer):
    branch = RuleCharField(problem=pattern_problem, max_length=PATTERN_MAX, required=False)


class AddApprover(RequestSerializer):
    username = StrictCharField(max_length=255)


class ProtectionRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    branch = serializers.CharField()
    required_approvals = serializers.IntegerField()
    approver_count = serializers.IntegerField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()
    updated_at = TimestampField()


class ApproverRecord(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    created_at = TimestampField()
    added_by_username = serializers.CharField(allow_null=True)


def protection_record(protection: Protection, base: str = "") -> dict[str, Any]:
    """Needs a row of `ProtectionQuerySet.with_people`."""
    count: int = getattr(protection, "approver_count", 0)
    return {
        "uuid": protection.uuid,
        "branch": protection.branch,
        "required_approvals": protection.required_approvals,
        "approver_count": count,
        "created_by_username": protection.created_by.username,
        "created_at": protection.created_at,
        "updated_at": protection.updated_at,
    }


def approver_record(approver: Approver, base: str = "") -> dict[str, Any]:
    """Needs `user` and `added_by` loaded."""
    return {
        "user_uuid": approver.user.uuid,
        "username": approver.user.username,
        "display_name": approver.user.display_name,
        "created_at": approver.created_at,
        "added_by_username": approver.added_by.username if approver.added_by else None,
    }
