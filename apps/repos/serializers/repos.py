"""Requests and records of repositories."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.core.access import Level
from apps.core.serializers import (
    RecordSerializer,
    RequestSerializer,
    RuleCharField,
    StrictCharField,
    StrictChoiceField,
    TimestampField,
)
from apps.core.slugs import PREFIX, REPO_SLUG, REPO_SLUG_MAX, repo_slug_problem
from apps.repos.models import Visibility

DESCRIPTION_MAX = 65_536


class RepoSlug(RuleCharField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            problem=repo_slug_problem,
            max_length=REPO_SLUG_MAX,
            pattern=REPO_SLUG.pattern,
            **options,
        )


class CreateRepo(RequestSerializer):
    name = StrictCharField(max_length=255)
    slug = RepoSlug()
    description = StrictCharField(
        max_length=DESCRIPTION_MAX, allow_blank=True, required=False, allow_null=True
    )
    visibility = StrictChoiceField(Visibility, required=False)


class UpdateRepo(CreateRepo):
    pass


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
