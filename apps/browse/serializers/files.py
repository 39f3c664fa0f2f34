"""Records of changed files of a commit, a comparison or a pull, and pages of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.browse.names import path_fields
from apps.core.serializers import RecordSerializer
from apps.git.diff import FileChange

STATUSES = ("added", "modified", "removed", "renamed", "type_changed")


class FileRecord(RecordSerializer):
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    previous_path = serializers.CharField(allow_null=True)
    previous_path_base64 = serializers.CharField(required=False)
    status = serializers.ChoiceField(STATUSES)
    additions = serializers.IntegerField(allow_null=True)
    deletions = serializers.IntegerField(allow_null=True)
    is_binary = serializers.BooleanField()
    sha = serializers.CharField(allow_null=True)
    previous_sha = serializers.CharField(allow_null=True)
    mode = serializers.CharField(allow_null=True)
    previous_mode = serializers.CharField(allow_null=True)
    is_too_large = serializers.BooleanField()
    patch = serializers.CharField(required=False, allow_null=True, allow_blank=True)


class FilePageRecord(RecordSerializer):
    results = FileRecord(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    files_truncated = serializers.BooleanField()


def file_record(change: FileChange) -> dict[str, Any]:
    """The record of a changed file, without its patch."""
    return {
        **path_fields(change.path),
        **path_fields(change.previous_path, "previous_path"),
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "is_binary": change.is_binary,
        "sha": change.sha,
        "previous_sha": change.previous_sha,
        "mode": change.mode,
        "previous_mode": change.previous_mode,
        "is_too_large": change.is_too_large,
    }


def patched_record(change: FileChange, patch: bytes | None) -> dict[str, Any]:
    """The record of a changed file with its patch. U+FFFD replaces bytes that are not UTF-8.

    `is_too_large` is also true if the patches of other files leave no room for this one.
    """
    record = file_record(change)
    record["patch"] = None if patch is None else patch.decode("utf-8", "replace")
    record["is_too_large"] = (patch is None and not change.is_binary) or change.is_too_large
    return record
