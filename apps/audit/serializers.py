"""The records of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.core.serializers import RecordSerializer, TimestampField
from apps.events.audit import AuditEntry
from apps.events.scopes import Names


class AuditRecord(RecordSerializer):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    actor_user_uuid = serializers.UUIDField(allow_null=True)
    actor_user_username = serializers.CharField(allow_null=True)
    actor_user_is_bot = serializers.BooleanField(allow_null=True)
    token_uuid = serializers.UUIDField(allow_null=True)
    token_name = serializers.CharField()
    address = serializers.CharField()
    program = serializers.CharField()
    repo_path = serializers.CharField(allow_null=True)
    team_slug = serializers.CharField(allow_null=True)
    target = serializers.DictField()
    data = serializers.DictField()  # type: ignore[assignment] # DRF has such a property
    created_at = TimestampField()


def audit_records(entries: Sequence[AuditEntry]) -> list[dict[str, Any]]:
    """The records of these entries, whose actors are loaded. Looks up all names at once."""
    names = Names(entries)
    return [_record(entry, names) for entry in entries]


def _record(entry: AuditEntry, names: Names) -> dict[str, Any]:
    actor: Any = entry.actor
    return {
        "id": entry.pk,
        "kind": entry.kind,
        "actor_user_uuid": actor and actor.uuid,
        "actor_user_username": actor and actor.username,
        "actor_user_is_bot": actor and actor.is_bot,
        "token_uuid": entry.token_uuid,
        "token_name": entry.token_name,
        "address": entry.address,
        "program": entry.program,
        "repo_path": names.repos.get(entry.repo_id),
        "team_slug": names.teams.get(entry.team_id),
        "target": entry.target,
        "data": entry.data,
        "created_at": entry.created_at,
    }
