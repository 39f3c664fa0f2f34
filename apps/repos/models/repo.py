"""Repositories: whose they are, who may read them, and where git has them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from apps.accounts.models import User
from apps.core.access import Principal
from apps.core.search import holds
from apps.core.slugs import REPO_SLUG_MAX
from apps.events.record import Keys, Target
from apps.git.repo import GitRepo
from apps.teams.models import Team

BRANCHES = "refs/heads/"
TAGS = "refs/tags/"


class Visibility(StrEnum):
    """Who may read a repository beside its people: nobody, the signed-in, everybody."""

    PRIVATE = "private"
    INTERNAL = "internal"
    PUBLIC = "public"


UNTIDY = Q(tidied_at=None) | Q(tidied_at__lt=F("pushed_at"))
"""Pushed to since its store was last packed."""
REPO_ROW = (
    *("uuid", "name", "slug", "description", "visibility", "default_branch", "is_empty"),
    *("is_archived", "upstream_id", "fork_count", "pushed_at", "created_at", "updated_at"),
)
RANK: dict[str, int] = {Visibility.PRIVATE: 0, Visibility.INTERNAL: 1, Visibility.PUBLIC: 2}


class RepoQuerySet(models.QuerySet["Repo"]):
    def under(self, owner: str) -> RepoQuerySet:
        """The repositories of `teams/<slug>` or `users/<username>`, in lower case."""
        kind, _, name = owner.partition("/")
        if kind == "teams":
            return self.filter(owner_team__slug=name)
        return self.filter(owner_user__username_key=name)

    def visible_to(self, principal: Principal) -> RepoQuerySet:
        """What this principal may read: the rule for lists; `access.level_on` is that for one."""
        if not principal.reads:
            return self.none()
        if principal.sees_all:
            return self
        shown = [Visibility.PUBLIC, *([Visibility.INTERNAL] if principal.is_signed_in else [])]
        open_to_them = Q(visibility__in=shown) & ~Q(owner_team__is_active=False)
        own = principal.person_id
        if own is None:
            return self.filter(open_to_them)
        own_teams = Team.objects.filter(members__user=own).values("pk")
        return self.filter(Q(owner_user=own) | Q(owner_team__in=own_teams) | open_to_them)

    def taken(self, slugs: list[str]) -> set[str]:
        """Which of these slugs one of the repositories has."""
        return set(self.filter(slug__in=slugs).values_list("slug", flat=True))

    def rows(self) -> models.QuerySet[Any, Any]:
        """Light rows for lists: what a record needs, by the names that it has on a repository."""
        return self.values_list(*REPO_ROW, named=True)

    def paths(self) -> dict[int, str]:
        """The path of each, by its id."""
        rows = self.values_list("pk", "owner_team__slug", "owner_user__username", "slug")
        return {
            pk: f"teams/{team}/{slug}" if team else f"users/{person}/{slug}"
            for pk, team, person, slug in rows
        }

    def paths_known_to(self, principal: Principal, ids: Iterable[int | None]) -> dict[int, str]:
        """The paths of those of these repositories that this principal may read, by id.

        One query, none for nothing.
        """
        wanted = {pk for pk in ids if pk is not None}
        return self.visible_to(principal).filter(pk__in=wanted).paths() if wanted else {}

    def search(self, text: str) -> RepoQuerySet:
        """Repositories with this text in name, slug or description, ignoring case."""
        return self.filter(holds("name", text) | holds("slug", text) | holds("description", text))


class Repo(models.Model):
    """A git repository of a team or a user, with its threads and pulls."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner_team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="repos")
    owner_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="repos"
    )
    upstream = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="copies"
    )
    """What it was forked from."""
    fork_count = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=255)
    slug = models.CharField(max_length=REPO_SLUG_MAX)
    description = models.TextField(null=True)  # noqa: DJ001 - null: no description
    visibility = models.CharField(max_length=10, default=Visibility.PRIVATE)
    default_branch = models.CharField(max_length=255, default="main")
    is_empty = models.BooleanField(default=True)
    is_archived = models.BooleanField(default=False)
    last_number = models.BigIntegerField(default=0)
    """The newest number given to a thread or pull; see `take_number`."""
    pushed_at = models.DateTimeField(null=True)
    tidied_at = models.DateTimeField(null=True)
    """When its store was last packed; see apps/repos/jobs.py."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    objects = RepoQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner_team", "slug"], name="repo_slug_in_team"),
            models.UniqueConstraint(fields=["owner_user", "slug"], name="repo_slug_of_user"),
            models.CheckConstraint(
                condition=Q(owner_team=None) ^ Q(owner_user=None), name="repo_has_one_owner"
            ),
        ]
        verbose_name, verbose_name_plural = "repository", "repositories"
        indexes = [
            models.Index(fields=["pushed_at"], condition=UNTIDY, name="repo_to_tidy"),
            models.Index(fields=["slug"], name="repo_by_slug", opclasses=["varchar_pattern_ops"]),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def owner(self) -> Team | User:
        return cast("Team | User", self.owner_team or self.owner_user)

    @property
    def path(self) -> str:
        """`teams/acme/api`: the page, the clone URL without `.git`, and the scope's text."""
        return f"{self.owner.path}/{self.slug}"

    @property
    def api_path(self) -> str:
        """`/teams/acme/repos/api`: below the API's prefix."""
        return f"/{self.owner.path}/repos/{self.slug}"

    @property
    def git(self) -> GitRepo:
        """The repository on disk. Its path follows from the uuid, so that renames move nothing."""
        text = str(self.uuid)
        root: Path = settings.REPOSITORIES_DIR
        return GitRepo(root / text[:2] / text[2:4] / f"{text}.git")

    def take_number(self) -> int:
        """The next number for a thread or pull. The caller holds this row's lock."""
        self.last_number += 1
        Repo.objects.filter(pk=self.pk).update(last_number=F("last_number") + 1)
        return self.last_number

    def take_slug(self) -> None:
        """Whatever had this one's slug in the space before is no longer found by it."""
        FormerRepoSlug.objects.filter(slug=self.slug, repo__in=self.owner.repos.all()).delete()

    def branch_sha(self, branch: str) -> str | None:
        """The stored head of a branch; None while there is none."""
        found = self.refs.filter(full_name=BRANCHES + branch)
        return found.values_list("sha", flat=True).first()

    def event_keys(self) -> Keys:
        return Keys(team=self.owner_team_id, repo=self.pk)

    def event_target(self) -> Target:
        return Target("repo", {"slug": self.slug}, web="", api="")

    def event_title(self) -> None:
        return None


class FormerRepoSlug(models.Model):
    """A former slug. It leads to the repository until its owner has another one of that slug."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="former_slugs")
    slug = models.CharField(max_length=REPO_SLUG_MAX)

    class Meta:
        indexes = [models.Index(fields=["slug", "repo"], name="former_repo_slug")]

    def __str__(self) -> str:
        return f"{self.slug}, now {self.repo_id}"
