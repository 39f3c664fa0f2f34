"""Records of folders, files and blame."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from rest_framework import serializers

from apps.accounts.principal import Principal
from apps.browse.names import path_fields, shown_path
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers.commits import (
    SignatureRecord,
    pusher_name,
    signature_record,
    usernames_of,
)
from apps.browse.trees import Blame, Content
from apps.core.serializers import RecordSerializer
from apps.core.slugs import PREFIX
from apps.git.blame import BlamedCommit
from apps.git.tree import Entry
from apps.repos.models import Repo

KINDS = ("file", "directory", "symlink", "submodule")
FILE_KINDS = ("file", "symlink", "submodule")


class TreeEntryRecord(RecordSerializer):
    name = serializers.CharField()
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    type = serializers.ChoiceField(KINDS)
    mode = serializers.CharField()
    sha = serializers.CharField()
    size = serializers.IntegerField(allow_null=True)


class LfsRecord(RecordSerializer):
    oid = serializers.CharField()
    size = serializers.IntegerField()


class ContentRecord(RecordSerializer):
    path = serializers.CharField()
    path_base64 = serializers.CharField(required=False)
    name = serializers.CharField()
    type = serializers.ChoiceField(FILE_KINDS)
    mode = serializers.CharField()
    sha = serializers.CharField()
    size = serializers.IntegerField(allow_null=True)
    encoding = serializers.CharField(allow_null=True)
    content = serializers.CharField(allow_null=True, allow_blank=True)
    is_binary = serializers.BooleanField(allow_null=True)
    lfs = LfsRecord(allow_null=True)
    target = serializers.CharField(allow_null=True)
    ref = serializers.CharField()
    commit_sha = serializers.CharField()
    raw_url = serializers.CharField()
    web_url = serializers.CharField()


def tree_entry_record(entry: Entry) -> dict[str, Any]:
    """The record of an entry of a folder."""
    return {
        "name": name_of(entry),
        **path_fields(entry.path),
        "type": entry.kind,
        "mode": entry.mode,
        "sha": entry.sha,
        "size": entry.size,
    }


def content_record(file: Content, repo: Repo, ref: str, base: str) -> dict[str, Any]:
    """The record of a file, symlink or submodule. `ref` is that of the request."""
    entry = file.entry
    content = file.content if entry.kind == "file" else None
    fields = path_fields(entry.path)
    end = address_of(fields, file.commit)
    return {
        **fields,
        "name": name_of(entry),
        "type": entry.kind,
        "mode": entry.mode,
        "sha": entry.sha,
        "size": entry.size,
        "encoding": None if content is None else "base64",
        "content": None if content is None else base64.b64encode(content).decode(),
        "is_binary": file.is_binary if entry.kind == "file" else None,
        "lfs": file.lfs if entry.kind == "file" else None,
        "target": target_of(file),
        "ref": ref,
        "commit_sha": file.commit,
        "raw_url": f"{base}{PREFIX}{repo.api_path}/raw/{end}",
        "web_url": f"{base}/{repo.path}/files/{end}",
    }


def name_of(entry: Entry) -> str:
    """The last part of an entry's path."""
    return shown_path(entry.path.rpartition(b"/")[2])


def target_of(file: Content) -> str | None:
    """The target of a symlink, or the commit of a submodule; None for a file."""
    if file.entry.kind == "submodule":
        return file.entry.sha
    is_link = file.entry.kind == "symlink" and file.content is not None
    return shown_path(file.content or b"") if is_link else None


def address_of(fields: dict[str, str | None], commit: str) -> str:
    """The end of a URL to this path, which may have any bytes."""
    query = {"ref": commit}
    if encoded := fields.get("path_base64"):
        query["path_base64"] = encoded
    return f"{quote(fields['path'] or '')}?{urlencode(query)}"


class BlamedCommitRecord(RecordSerializer):
    sha = serializers.CharField()
    subject = serializers.CharField(allow_blank=True)
    author = SignatureRecord()
    committer = SignatureRecord()
    pushed_by_username = serializers.CharField(allow_null=True)


class LinesRecord(RecordSerializer):
    """A range of lines. `from` is a keyword of Python, so it is added in `get_fields`."""

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


def blame_record(blame: Blame, repo: Repo, path: bytes, principal: Principal) -> dict[str, Any]:
    """The record of a blame: two queries, the one for accounts only for signed-in callers."""
    commits = [blamed.commit for blamed in blame.ranges]
    people = [person for commit in commits for person in (commit.author, commit.committer)]
    usernames = usernames_of((person.email for person in people), principal)
    pushers = pushers_of(repo, {commit.sha for commit in commits})
    return {
        "commit_sha": blame.commit,
        **path_fields(path),
        "from": blame.first,
        "to": blame.last,
        "total_lines": blame.total,
        "ranges": [
            {
                "from": blamed.first,
                "to": blamed.last,
                "commit": blamed_commit_record(blamed.commit, usernames, pushers),
                **path_fields(blamed.original_path, "original_path"),
                "original_line": blamed.original_line,
            }
            for blamed in blame.ranges
        ],
    }


def blamed_commit_record(
    commit: BlamedCommit, usernames: dict[str, str], pushers: Mapping[str, Push]
) -> dict[str, Any]:
    return {
        "sha": commit.sha,
        "subject": commit.subject,
        "author": signature_record(commit.author, usernames),
        "committer": signature_record(commit.committer, usernames),
        "pushed_by_username": pusher_name(commit.sha, pushers),
    }
