"""The requests and the records of SSH keys."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    StrictBooleanField,
    StrictCharField,
    TimestampField,
)
from apps.ssh.models import KEY_MAX, TITLE_MAX, SshKey


class CreateSshKey(RequestSerializer):
    title = NameField(max_length=TITLE_MAX, required=False)
    key = StrictCharField(max_length=KEY_MAX)


class CreateDeployKey(CreateSshKey):
    can_write = StrictBooleanField(required=False)


class SshKeyRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    title = serializers.CharField()
    key = serializers.CharField()
    fingerprint = serializers.CharField()
    created_at = TimestampField()
    last_used_at = TimestampField(allow_null=True)


class DeployKeyRecord(SshKeyRecord):
    can_write = serializers.BooleanField()
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_by_is_bot = serializers.BooleanField()


def ssh_key_record(row: SshKey) -> dict[str, Any]:
    return {
        "uuid": row.uuid,
        "title": row.title,
        "key": row.key,
        "fingerprint": row.fingerprint,
        "created_at": row.created_at,
        "last_used_at": row.last_used_at,
    }


def deploy_key_record(row: SshKey) -> dict[str, Any]:
    """The record of a row of `queries.list_deploy_keys`."""
    return {
        **ssh_key_record(row),
        "can_write": row.can_write,
        "created_by_uuid": row.created_by.uuid,
        "created_by_username": row.created_by.username,
        "created_by_is_bot": row.created_by.is_bot,
    }
