"""The record of where the lines of a file are from."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.accounts.principal import Principal
from apps.browse.blame import Blame
from apps.browse.names import path_fields
from apps.browse.serializers.commits import SignatureRecord, signature_record, usernames_of
from apps.core.serializers import RecordSerializer
from apps.git.blame import BlamedCommit


class BlamedCommitRecord(RecordSerializer):
    sha = serializers.CharField()
    subject = serializers.CharField(allow_blank=True)
    author = SignatureRecord()
    committer = SignatureRecord()


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


def blame_record(found: Blame, path: bytes, principal: Principal) -> dict[str, Any]:
    """The record; one query says who has an account, for callers who have one."""
    people = [p for one in found.ranges for p in (one.commit.author, one.commit.committer)]
    usernames = usernames_of((person.email for person in people), principal)
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
                "commit": commit_record(one.commit, usernames),
                **path_fields(one.original_path, "original_path"),
                "original_line": one.original_line,
            }
            for one in found.ranges
        ],
    }


def commit_record(commit: BlamedCommit, usernames: dict[str, str]) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "subject": commit.subject,
        "author": signature_record(commit.author, usernames),
        "committer": signature_record(commit.committer, usernames),
    }
