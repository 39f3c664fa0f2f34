"""The requests and records of files that a person has viewed."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.browse.names import PATH_MAX, path_fields
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
)
from apps.pulls import rules
from apps.pulls.models import SHA_MAX, PullVersion
from apps.pulls.queries import Progress
from apps.pulls.versions import Listing


class SetViewed(RequestSerializer):
    path = StrictCharField(max_length=PATH_MAX)
    path_base64 = StrictCharField(max_length=PATH_MAX * 2, required=False)
    is_viewed = StrictBooleanField()
    head_sha = RuleCharField(
        problem=rules.sha_problem, max_length=SHA_MAX, pattern="^[0-9a-f]{40}$", required=False
    )


class ViewedFileRecord(RecordSerializer):
    """The path of a file whose change the caller has viewed."""

    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)


class ViewedRecord(RecordSerializer):
    """The progress of the caller through the changes of a pull."""

    version = serializers.IntegerField(allow_null=True)
    head_sha = serializers.CharField(allow_null=True)
    seen_version = serializers.IntegerField(allow_null=True)
    previous_version = serializers.IntegerField(allow_null=True)
    changed_files = serializers.IntegerField()
    viewed_count = serializers.IntegerField()
    files = ViewedFileRecord(many=True)


def viewed_record(
    version: PullVersion | None, listing: Listing, progress: Progress
) -> dict[str, Any]:
    """The record of a person's progress. `listing`: the files of the version."""
    files = [path_fields(file.path) for file in listing.files if progress.has_viewed(file)]
    return {
        "version": version and version.version,
        "head_sha": version and version.head_sha,
        "seen_version": progress.seen_version,
        "previous_version": progress.previous_version,
        "changed_files": listing.total,
        "viewed_count": len(files),
        "files": files,
    }
