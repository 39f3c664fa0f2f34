"""Records of commits and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rest_framework import serializers

from apps.accounts.models import EMAIL_MAX, User
from apps.accounts.principal import Principal
from apps.browse.comparison import Comparison
from apps.browse.pushers import Push, pushers_of
from apps.browse.serializers.files import FilePageRecord
from apps.core.serializers import RecordSerializer
from apps.core.slugs import PREFIX
from apps.git.diff import Changes
from apps.git.log import Commit, Signature
from apps.repos.models import Repo


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
    """The records of commits: two queries, the one for accounts only for signed-in callers."""
    people = [person for commit in commits for person in (commit.author, commit.committer)]
    usernames = usernames_of((person.email for person in people), principal)
    pushers = pushers_of(repo, [commit.sha for commit in commits])
    return [commit_record(commit, repo, usernames, pushers, base) for commit in commits]


def accounts_of(emails: Iterable[str], principal: Principal) -> dict[str, Any]:
    """Address in lower case -> a row with `username` and `uuid`, of active people.

    Empty if the caller is not signed in.
    """
    if not principal.is_signed_in:
        return {}
    keys = {email.lower() for email in emails if 0 < len(email) <= EMAIL_MAX}
    people = User.objects.filter(is_active=True, email_key__in=sorted(keys))
    rows = people.values_list("email_key", "username", "uuid", named=True)
    return {str(row.email_key): row for row in rows}


def usernames_of(emails: Iterable[str], principal: Principal) -> dict[str, str]:
    """Address in lower case -> username; see `accounts_of`."""
    return {email: row.username for email, row in accounts_of(emails, principal).items()}


def commit_record(
    commit: Commit,
    repo: Repo,
    usernames: dict[str, str],
    pushers: Mapping[str, Push],
    base: str,
) -> dict[str, Any]:
    """The record of a commit. `usernames` are from `usernames_of`, `pushers` from `pushers_of`."""
    return {
        "sha": commit.sha,
        "tree_sha": commit.tree,
        "parents": [*commit.parents],
        "message": commit.message,
        "subject": commit.subject,
        "author": signature_record(commit.author, usernames),
        "committer": signature_record(commit.committer, usernames),
        "pushed_by_username": pusher_name(commit.sha, pushers),
        "web_url": f"{base}/{repo.path}/commits/{commit.sha}",
        "api_url": f"{base}{PREFIX}{repo.api_path}/commits/{commit.sha}",
    }


def pusher_name(sha: str, pushers: Mapping[str, Push]) -> str | None:
    """The username of the account that pushed a commit; None if that is not known."""
    push = pushers.get(sha)
    return None if push is None else push.username


def signature_record(signature: Signature, usernames: dict[str, str]) -> dict[str, Any]:
    return {
        "name": signature.name,
        "email": signature.email,
        "date": signature.date,
        "username": usernames.get(signature.email.lower()),
    }


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
    """The size of the changes in all files."""
    return {
        "additions": changes.additions,
        "deletions": changes.deletions,
        "changed_files": changes.total,
    }
