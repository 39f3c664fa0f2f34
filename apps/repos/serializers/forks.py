"""The record of a fork."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.serializers import RecordSerializer, TimestampField
from apps.repos.models import Fork, ForkStatus


class ForkRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    status = serializers.ChoiceField([str(word) for word in ForkStatus])
    error = serializers.CharField(allow_null=True)
    upstream_path = serializers.CharField(allow_null=True)
    repo_path = serializers.CharField(allow_null=True)
    owner_kind = serializers.ChoiceField(["team", "user"])
    owner_slug = serializers.CharField()
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()
    started_at = TimestampField(allow_null=True)
    completed_at = TimestampField(allow_null=True)


def fork_record(fork: Fork, readable: set[int]) -> dict[str, Any]:
    """A fork; of its two repositories only those are named whose ids are `readable`."""
    upstream = fork.upstream if fork.upstream_id in readable else None
    repo = fork.repo if fork.repo_id in readable else None
    return {
        "uuid": fork.uuid,
        "status": fork.status,
        "error": fork.error,
        "upstream_path": upstream and upstream.path,
        "repo_path": repo and repo.path,
        "owner_kind": "team" if fork.owner_team_id else "user",
        "owner_slug": fork.owner.path.split("/")[1],
        "created_by_uuid": fork.created_by.uuid,
        "created_by_username": fork.created_by.username,
        "created_at": fork.created_at,
        "started_at": fork.started_at,
        "completed_at": fork.completed_at,
    }
