"""Records of branches and tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from apps.core.serializers import RecordSerializer, TimestampField
from apps.git.tips import TEXT_MAX
from apps.repos.models import Protection
from apps.repos.models.protection import glob_matches
from apps.repos.models.ref import short_name


class TipRecord(RecordSerializer):
    sha = serializers.CharField()
    subject = serializers.CharField(allow_null=True)
    author_name = serializers.CharField(allow_null=True)
    committed_at = TimestampField(allow_null=True)


class RefRecord(RecordSerializer):
    """Fields of both branches and tags."""

    name = serializers.CharField()
    updated_at = TimestampField()
    pushed_by_uuid = serializers.UUIDField(allow_null=True)
    pushed_by_username = serializers.CharField(allow_null=True)


class BranchRecord(RefRecord):
    sha = serializers.CharField()
    is_default = serializers.BooleanField()
    is_protected = serializers.BooleanField()
    open_pull_numbers = serializers.ListField(child=serializers.IntegerField())
    commit = TipRecord()


class ProtectionOfBranchRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    branch = serializers.CharField()


class SingleBranchRecord(BranchRecord):
    ahead_by = serializers.IntegerField(allow_null=True)
    behind_by = serializers.IntegerField(allow_null=True)
    protections = ProtectionOfBranchRecord(many=True)


class TaggerRecord(RecordSerializer):
    name = serializers.CharField()
    email = serializers.CharField()
    date = TimestampField(allow_null=True)


class TagRecord(RefRecord):
    sha = serializers.CharField(allow_null=True)
    tag_sha = serializers.CharField(allow_null=True)
    message = serializers.CharField(allow_null=True)
    message_truncated = serializers.BooleanField()
    tagger = TaggerRecord(allow_null=True)
    commit = TipRecord(allow_null=True)


def branch_record(
    ref: Any, default: str, protected: Iterable[str], pulls: dict[str, list[int]]
) -> dict[str, Any]:
    """The record of a branch. `default` is the default branch, `protected` the patterns of
    protections, and `pulls` the numbers of open pulls by source branch.
    """
    name = short_name(ref.full_name)
    return {
        **_ref_fields(ref),
        "sha": ref.sha,
        "is_default": name == default,
        "is_protected": any(glob_matches(pattern, name) for pattern in protected),
        "open_pull_numbers": pulls.get(name, []),
        "commit": _tip_record(ref, ref.sha),
    }


def protection_of_branch_record(protection: Protection) -> dict[str, Any]:
    return {"uuid": protection.uuid, "branch": protection.branch}


def tag_record(ref: Any) -> dict[str, Any]:
    """The record of a tag, with the beginning of an annotated tag's message."""
    commit = ref.sha if ref.peeled_sha is None else ref.peeled_sha or None
    message, tagger = ref.tag_message, None
    if ref.tagger_name or ref.tagger_email or ref.tagged_at:
        date = ref.tagged_at or None
        tagger = {"name": ref.tagger_name, "email": ref.tagger_email, "date": date}
    return {
        **_ref_fields(ref),
        "sha": commit,
        "tag_sha": None if message is None else ref.sha,
        "message": None if message is None else message[:TEXT_MAX],
        "message_truncated": message is not None and len(message) > TEXT_MAX,
        "tagger": tagger,
        "commit": None if commit is None else _tip_record(ref, commit),
    }


def _ref_fields(ref: Any) -> dict[str, Any]:
    return {
        "name": short_name(ref.full_name),
        "updated_at": ref.updated_at,
        "pushed_by_uuid": ref.pushed_by__uuid,
        "pushed_by_username": ref.pushed_by__username,
    }


def _tip_record(ref: Any, sha: str) -> dict[str, Any]:
    is_read = ref.peeled_sha is not None
    return {
        "sha": sha,
        "subject": ref.commit_subject if is_read else None,
        "author_name": ref.commit_author if is_read else None,
        "committed_at": ref.committed_at or None,
    }
