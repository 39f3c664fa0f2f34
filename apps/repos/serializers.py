"""Requests and records of repositories, their protections and their forks."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.access import Level
from apps.core.serializers import (
    NameField,
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    TimestampField,
)
from apps.core.slugs import PREFIX, REPO_SLUG, REPO_SLUG_MAX, repo_slug_problem
from apps.git.refs import MOST_BYTES
from apps.repos.models import Approver, Fork, ForkStatus, Protection, Visibility
from apps.repos.protection_rules import (
    Fields,
    settings_of,
    with_record_fields,
    with_request_fields,
)
from apps.repos.rules import Collaborators, branch_problem, is_satisfiable, pattern_problem

DESCRIPTION_MAX = 65_536


class CreateRepo(RequestSerializer):
    name = NameField(max_length=255)
    slug = RuleCharField(
        problem=repo_slug_problem, max_length=REPO_SLUG_MAX, pattern=REPO_SLUG.pattern
    )
    description = StrictCharField(
        max_length=DESCRIPTION_MAX, allow_blank=True, required=False, allow_null=True
    )
    visibility = StrictChoiceField(Visibility, required=False)


class UpdateRepo(CreateRepo):
    is_archived = StrictBooleanField(required=False)
    default_branch = RuleCharField(problem=branch_problem, max_length=MOST_BYTES, required=False)


class RepoRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    name = serializers.CharField()
    slug = serializers.CharField()
    path = serializers.CharField()
    description = serializers.CharField(allow_null=True)
    visibility = serializers.ChoiceField([str(word) for word in Visibility])
    owner_kind = serializers.ChoiceField(["team", "user"])
    owner_slug = serializers.CharField()
    default_branch = serializers.CharField()
    is_empty = serializers.BooleanField()
    is_archived = serializers.BooleanField()
    is_fork = serializers.BooleanField()
    upstream_path = serializers.CharField(allow_null=True)
    fork_count = serializers.IntegerField()
    clone_url = serializers.CharField()
    web_url = serializers.CharField()
    api_url = serializers.CharField()
    pushed_at = TimestampField(allow_null=True)
    created_at = TimestampField()
    updated_at = TimestampField()
    caller_permission = serializers.ChoiceField(["read", "write", "admin", "owner"])


def repo_record(
    repo: Any, owner: str, level: Level, base: str, upstream: str | None = None
) -> dict[str, Any]:
    """A repository as the caller with `level` sees it: a Repo, or a light row.

    `owner` is the path of its owner, `upstream` that of what it was forked from, if the caller may
    know that.
    """
    kind, _, owner_slug = owner.partition("/")
    path = f"{owner}/{repo.slug}"
    return {
        "uuid": repo.uuid,
        "name": repo.name,
        "slug": repo.slug,
        "path": path,
        "description": repo.description,
        "visibility": repo.visibility,
        "owner_kind": "team" if kind == "teams" else "user",
        "owner_slug": owner_slug,
        "default_branch": repo.default_branch,
        "is_empty": repo.is_empty,
        "is_archived": repo.is_archived,
        "is_fork": repo.upstream_id is not None,
        "upstream_path": upstream,
        "fork_count": repo.fork_count,
        "clone_url": f"{base}/{path}.git",
        "web_url": f"{base}/{path}",
        "api_url": f"{base}{PREFIX}/{owner}/repos/{repo.slug}",
        "pushed_at": repo.pushed_at,
        "created_at": repo.created_at,
        "updated_at": repo.updated_at,
        "caller_permission": level.name.lower(),
    }


class CreateProtection(RequestSerializer):
    branch = RuleCharField(problem=pattern_problem, max_length=MOST_BYTES)

    def get_fields(self) -> Fields:
        return with_request_fields(super().get_fields())


class UpdateProtection(CreateProtection):
    branch = RuleCharField(problem=pattern_problem, max_length=MOST_BYTES, required=False)


class AddApprover(RequestSerializer):
    username = StrictCharField(max_length=255)


class RecordWithSettings(RecordSerializer):
    """A record about a protection, with the settings of its rules."""

    def get_fields(self) -> Fields:
        return with_record_fields(super().get_fields())


class ProtectionRecord(RecordWithSettings):
    uuid = serializers.UUIDField()
    branch = serializers.CharField()
    is_satisfiable = serializers.BooleanField(
        help_text="Whether somebody could open a pull that enough others could approve."
    )
    approver_count = serializers.IntegerField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()
    updated_at = TimestampField()


class ApproverRecord(RecordSerializer):
    user_uuid = serializers.UUIDField()
    username = serializers.CharField()
    display_name = serializers.CharField()
    created_at = TimestampField()
    added_by_username = serializers.CharField(allow_null=True)


def protection_record(protection: Protection, collaborators: Collaborators) -> dict[str, Any]:
    """Needs a row of `ProtectionQuerySet.with_people`."""
    return {
        "uuid": protection.uuid,
        "branch": protection.branch,
        **settings_of(protection),
        "is_satisfiable": is_satisfiable(protection, collaborators),
        "approver_count": len(protection.approvers.all()),
        "created_by_username": protection.created_by.username,
        "created_at": protection.created_at,
        "updated_at": protection.updated_at,
    }


def approver_record(approver: Approver) -> dict[str, Any]:
    """Needs `user` and `added_by` loaded."""
    return {
        "user_uuid": approver.user.uuid,
        "username": approver.user.username,
        "display_name": approver.user.display_name,
        "created_at": approver.created_at,
        "added_by_username": approver.added_by.username if approver.added_by else None,
    }


class ForkRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    status = serializers.ChoiceField([str(word) for word in ForkStatus])
    error = serializers.CharField(allow_null=True)
    upstream_path = serializers.CharField(allow_null=True)
    repo_path = serializers.CharField(allow_null=True)
    owner_kind = serializers.ChoiceField(["team", "user"])
    owner_slug = serializers.CharField()
    created_by_uuid = serializers.UUIDField()
    created_by_username = serializers.CharField()
    created_at = TimestampField()
    started_at = TimestampField(allow_null=True)
    completed_at = TimestampField(allow_null=True)


def fork_record(fork: Fork, paths: dict[int, str]) -> dict[str, Any]:
    """The record of a fork. `paths` has the paths of readable repositories by id."""
    return {
        "uuid": fork.uuid,
        "status": fork.status,
        "error": fork.error,
        "upstream_path": paths.get(fork.upstream_id),
        "repo_path": paths.get(fork.repo_id) if fork.repo_id else None,
        "owner_kind": "team" if fork.owner_team_id else "user",
        "owner_slug": fork.owner.path.split("/")[1],
        "created_by_uuid": fork.created_by.uuid,
        "created_by_username": fork.created_by.username,
        "created_at": fork.created_at,
        "started_at": fork.started_at,
        "completed_at": fork.completed_at,
    }
