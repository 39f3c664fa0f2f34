"""The record of where the lines of a file are from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.accounts.principal import Principal
from apps.browse.blame import Blame
from apps.browse.names import path_fields
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers.commits import (
    SignatureRecord,
    pusher_name,
    signature_record,
    usernames_of,
)
from apps.core.serializers import RecordSerializer
from apps.git.blame import BlamedCommit
from apps.repos.models import Repo


class BlamedCommitRecord(RecordSerializer):
    sha = serializers.CharField()
    subject = serializers.CharField(allow_blank=True)
    author = SignatureRecord()
    committer = SignatureRecord()
    pushed_by_username = serializers.CharField(allow_null=True)


class LinesRecord(RecordSerializer):
    """Lines from one to another; `from` is a word of Python's."""

    to = serializers.IntegerField()

    def get_fields(self) -> dict[str, Any]:
        return {"from": serializers.IntegerField(), **super().get_fields()}


class BlamedRangeRecord(LinesRecord):
    commit = BlamedCommitRecord()
    original_path = serializers.CharField()
    original_path_base64 = serializers.CharField(required=False)
    original_line = serializers.IntegerField()


class BlameRecord(LinesRecord):
    commit_sha = serializers.CharField()
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    total_lines = serializers.IntegerField()
    ranges = BlamedRangeRecord(many=True)


def blame_record(found: Blame, repo: Repo, path: bytes, principal: Principal) -> dict[str, Any]:
    """The record: two queries, the one for accounts only for signed-in callers."""
    people = [p for one in found.ranges for p in (one.commit.author, one.commit.committer)]
    usernames = usernames_of((person.email for person in people), principal)
    pushers = pushers_of(repo, {one.commit.sha for one in found.ranges})
    return {
        "commit_sha": found.commit,
        **path_fields(path),
        "from": found.first,
        "to": found.last,
        "total_lines": found.total,
        "ranges": [
            {
                "from": one.first,
                "to": one.last,
                "commit": commit_record(one.commit, usernames, pushers),
                **path_fields(one.original_path, "original_path"),
                "original_line": one.original_line,
            }
            for one in found.ranges
        ],
    }


def commit_record(
    commit: BlamedCommit, usernames: dict[str, str], pushers: Mapping[str, Push]
) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "subject": commit.subject,
        "author": signature_record(commit.author, usernames),
        "committer": signature_record(commit.committer, usernames),
        "pushed_by_username": pusher_name(commit.sha, pushers),
    }
