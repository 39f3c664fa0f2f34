"""The record of a comparison."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.browse.comparison import Comparison
from apps.browse.serializers.commits import CommitRecord, DiffStatRecord
from apps.browse.serializers.files import FilePageRecord
from apps.core.serializers import RecordSerializer
from apps.git.diff import Changes


class ComparisonRecord(RecordSerializer):
    base_sha = serializers.CharField()
    head_sha = serializers.CharField()
    merge_base_sha = serializers.CharField(allow_null=True)
    ahead_by = serializers.IntegerField()
    behind_by = serializers.IntegerField()
    stats = DiffStatRecord()
    commits = CommitRecord(many=True)
    commits_truncated = serializers.BooleanField()
    files = FilePageRecord()
    files_truncated = serializers.BooleanField()


def comparison_record(
    found: Comparison, commits: list[dict[str, Any]], files: dict[str, Any]
) -> dict[str, Any]:
    """The record, with those of its commits and the page of its files."""
    return {
        "base_sha": found.base,
        "head_sha": found.head,
        "merge_base_sha": found.merge_base,
        "ahead_by": found.ahead,
        "behind_by": found.behind,
        "stats": stat_record(found.changes),
        "commits": commits,
        "commits_truncated": found.ahead > len(commits),
        "files": files,
        "files_truncated": files["files_truncated"],
    }


def stat_record(changes: Changes) -> dict[str, int]:
    """How much changes, in all files."""
    return {
        "additions": changes.additions,
        "deletions": changes.deletions,
        "changed_files": changes.total,
    }
