"""The records of commits, files, folders, blame, branches and tags."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from uuid import UUID

from django.db.models import QuerySet
from rest_framework import serializers

from apps.accounts.models import EMAIL_MAX, User
from apps.accounts.principal import Principal
from apps.browse.comparison import Comparison
from apps.browse.names import path_fields, shown_path
from apps.browse.pushers import pushers_of
from apps.browse.trees import Blame, Content, name_of
from apps.core.serializers import RecordSerializer, TimestampField
from apps.core.slugs import PREFIX
from apps.core.statements import Statement, padded, parameters
from apps.git.blame import BlamedCommit
from apps.git.diff import Changes, FileChange
from apps.git.log import Commit, Signature
from apps.git.tips import TEXT_MAX
from apps.git.tree import Entry
from apps.repos.models import Protection, Repo
from apps.repos.models.protection import glob_matches
from apps.repos.models.ref import short_name
from apps.statuses.queries import checks_record, states_of
from apps.statuses.serializers import ChecksRecord

STATUSES = ("added", "modified", "removed", "renamed", "type_changed")
KINDS = ("file", "directory", "symlink", "submodule")
FILE_KINDS = ("file", "symlink", "submodule")


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


class SignatureRecord(RecordSerializer):
    name = serializers.CharField(allow_blank=True)
    email = serializers.CharField(allow_blank=True)
    date = serializers.CharField()
    username = serializers.CharField(allow_null=True)


class CommitRecord(RecordSerializer):
    sha = serializers.CharField()
    tree_sha = serializers.CharField()
    parents = serializers.ListField(child=serializers.CharField())
    message = serializers.CharField(allow_blank=True)
    subject = serializers.CharField(allow_blank=True)
    author = SignatureRecord()
    committer = SignatureRecord()
    pushed_by_username = serializers.CharField(allow_null=True)
    checks = ChecksRecord()
    web_url = serializers.CharField()
    api_url = serializers.CharField()


class DiffStatRecord(RecordSerializer):
    additions = serializers.IntegerField()
    deletions = serializers.IntegerField()
    changed_files = serializers.IntegerField()


class SingleCommitRecord(CommitRecord):
    is_signed = serializers.BooleanField()
    pull_numbers = serializers.ListField(child=serializers.IntegerField())
    stats = DiffStatRecord()
    files = FilePageRecord()


def commit_records(
    commits: Sequence[Commit], repo: Repo, principal: Principal, base: str
) -> list[dict[str, Any]]:
    """The records of commits: three queries, the one for accounts only for signed-in callers."""
    people = _people_of(commits, repo, principal)
    states = states_of([(repo.pk, commit.sha) for commit in commits])
    return [
        {
            "sha": commit.sha,
            "tree_sha": commit.tree,
            "parents": [*commit.parents],
            "message": commit.message,
            "subject": commit.subject,
            **people(commit),
            "checks": checks_record(states, repo.pk, commit.sha),
            "web_url": f"{base}/{repo.path}/commits/{commit.sha}",
            "api_url": f"{base}{PREFIX}{repo.api_path}/commits/{commit.sha}",
        }
        for commit in commits
    ]


def accounts_of(emails: Iterable[str], principal: Principal) -> dict[str, Any]:
    """Address in lower case -> a row with `username` and `uuid`, of active people.

    Empty if the caller is not signed in.
    """
    if not principal.is_signed_in:
        return {}
    keys = padded({email.lower() for email in emails if 0 < len(email) <= EMAIL_MAX})
    rows = _accounts(len(keys)).all(keys=keys) if keys else []
    return {row.email_key: row for row in rows}


class Account(NamedTuple):
    """A person whose address is in commits."""

    email_key: str
    username: str
    uuid: UUID


@cache
def _accounts(count: int) -> Statement:
    """Selects the active people with this many addresses."""

    def rows() -> QuerySet[Any, Any]:
        people = User.objects.filter(is_active=True, email_key__in=parameters("keys", count))
        return people.values_list(*Account._fields)

    return Statement(rows, Account)


def _people_of(
    commits: Iterable[Commit | BlamedCommit], repo: Repo, principal: Principal
) -> Callable[[Commit | BlamedCommit], dict[str, Any]]:
    """A function of the fields of each of these commits that name people: two queries, the one for
    accounts only for signed-in callers.
    """
    signatures = [person for commit in commits for person in (commit.author, commit.committer)]
    accounts = accounts_of((signature.email for signature in signatures), principal)
    pushers = pushers_of(repo, {commit.sha for commit in commits})

    def signature_record(signature: Signature) -> dict[str, Any]:
        account = accounts.get(signature.email.lower())
        return {
            "name": signature.name,
            "email": signature.email,
            "date": signature.date,
            "username": account and account.username,
        }

    def record(commit: Commit | BlamedCommit) -> dict[str, Any]:
        pusher = pushers.get(commit.sha)
        return {
            "author": signature_record(commit.author),
            "committer": signature_record(commit.committer),
            "pushed_by_username": pusher and pusher.username,
        }

    return record


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
    comparison: Comparison, commits: list[dict[str, Any]], files: dict[str, Any]
) -> dict[str, Any]:
    """The record of a comparison, with the records of its commits and a page of its files."""
    return {
        "base_sha": comparison.base,
        "head_sha": comparison.head,
        "merge_base_sha": comparison.merge_base,
        "ahead_by": comparison.ahead,
        "behind_by": comparison.behind,
        "stats": stat_record(comparison.changes),
        "commits": commits,
        "commits_truncated": comparison.ahead > len(commits),
        "files": files,
        "files_truncated": files["files_truncated"],
    }


def stat_record(changes: Changes) -> dict[str, int]:
    return {
        "additions": changes.additions,
        "deletions": changes.deletions,
        "changed_files": changes.total,
    }


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
        "name": shown_path(name_of(entry)),
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
        "name": shown_path(name_of(entry)),
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
    """The record of a blame: two queries, as `commit_records`."""
    people = _people_of([blamed.commit for blamed in blame.ranges], repo, principal)
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
                "commit": {
                    "sha": blamed.commit.sha,
                    "subject": blamed.commit.subject,
                    **people(blamed.commit),
                },
                **path_fields(blamed.original_path, "original_path"),
                "original_line": blamed.original_line,
            }
            for blamed in blame.ranges
        ],
    }


class TipRecord(RecordSerializer):
    sha = serializers.CharField()
    subject = serializers.CharField(allow_null=True)
    author_name = serializers.CharField(allow_null=True)
    committed_at = TimestampField(allow_null=True)


class RefRecord(RecordSerializer):
    name = serializers.CharField()
    updated_at = TimestampField()
    pushed_by_uuid = serializers.UUIDField(allow_null=True)
    pushed_by_username = serializers.CharField(allow_null=True)
    pushed_by_is_bot = serializers.BooleanField(allow_null=True)


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
        "pushed_by_is_bot": ref.pushed_by__is_bot,
    }


def _tip_record(ref: Any, sha: str) -> dict[str, Any]:
    is_read = ref.peeled_sha is not None
    return {
        "sha": sha,
        "subject": ref.commit_subject if is_read else None,
        "author_name": ref.commit_author if is_read else None,
        "committed_at": ref.committed_at or None,
    }
