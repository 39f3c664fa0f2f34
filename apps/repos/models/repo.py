"""Repositories: their owner, their readers, and their folder on disk."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from enum import StrEnum
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.db import models
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.lookups import IsNull
from django.utils import timezone

from apps.accounts.models import GONE, NOT_GONE, Deletion, User, deletion_field
from apps.core.access import Principal
from apps.core.search import holds
from apps.core.slugs import REPO_SLUG_MAX
from apps.events.record import Keys, Target
from apps.git.repo import GitRepo
from apps.teams.models import Team

BRANCHES = "refs/heads/"
TAGS = "refs/tags/"


class Visibility(StrEnum):
    """The readers of a repository besides its people: nobody, signed-in people, everybody."""

    PRIVATE = "private"
    INTERNAL = "internal"
    PUBLIC = "public"


UNTIDY = Q(tidied_at=None) | Q(tidied_at__lt=F("pushed_at"))
"""Repositories that were pushed to since they were last tidied."""
PUSHES_DUE = (
    Q(pushes_read_at=None, pushed_at__isnull=False)
    | Q(pushes_read_at__lt=F("pushed_at"))
    | Q(pushes_read_at__gt=F("pushed_at"))
)
"""Repositories with pushes whose commits are not stored as `CommitPush` yet.

Two comparisons, because clocks of servers differ: a later push may have an earlier time.
"""
SHOWN = Q(visibility__in=[Visibility.PUBLIC.value, Visibility.INTERNAL.value])
"""Repositories that people outside the owner's space may read."""
HEAD_DUE = Q(head_due=True)
RANK: dict[str, int] = {Visibility.PRIVATE: 0, Visibility.INTERNAL: 1, Visibility.PUBLIC: 2}


def ways_to_read(principal: Principal) -> list[Q]:
    """Conditions for repositories that are not deleted; the person may read those that fulfil any
    of them. Call it with `covered_by`, to which their credential may limit them.
    """
    if principal.is_of_staff:
        return [Q()]
    readable = [Visibility.PUBLIC, *([Visibility.INTERNAL] if principal.is_signed_in else [])]
    by_visibility = Q(visibility__in=readable) & ~Q(owner_team__is_active=False)
    own = principal.person_id
    if own is None:
        return [by_visibility]
    own_teams = Team.objects.filter(members__user=own).open_to(principal).values("pk")
    return [Q(owner_user=own), Q(owner_team__in=own_teams), by_visibility]


def covered_by(principal: Principal) -> Q:
    """The condition for repositories for which the credential is valid."""
    return Q() if principal.repo_ids is None else Q(pk__in=principal.repo_ids)


class RepoRow(NamedTuple):
    """The columns of a record, for lists."""

    uuid: uuid.UUID
    name: str
    slug: str
    description: str
    visibility: str
    default_branch: str
    is_empty: bool
    is_archived: bool
    upstream_id: int | None
    fork_count: int
    pushed_at: dt.datetime | None
    created_at: dt.datetime
    updated_at: dt.datetime


class RepoPath(NamedTuple):
    """The path of a repository, for lists that do not load the repository."""

    pk: int
    team: str | None
    person: str | None
    slug: str

    @staticmethod
    def columns(repo: str = "") -> list[str]:
        """Query paths of these values. `repo`: the prefix from a row to its repository."""
        names = ("pk", "owner_team__slug", "owner_user__username", "slug")
        return [repo + name for name in names]

    @property
    def owner(self) -> str:
        return f"teams/{self.team}" if self.team else f"users/{self.person}"

    @property
    def path(self) -> str:
        return f"{self.owner}/{self.slug}"

    @property
    def api_path(self) -> str:
        return f"/{self.owner}/repos/{self.slug}"


class RepoQuerySet(models.QuerySet["Repo"]):
    def gone(self) -> RepoQuerySet:
        """The deleted repositories, of which there are few."""
        return self.filter(GONE)

    def hide(self, deletion: Deletion) -> None:
        """Mark these as deleted, except those that are already. Their owners may fork the upstreams
        of those that are forks again at once. Call it in a transaction.
        """
        from apps.repos.models.fork import Fork, ForkStatus  # it imports this module

        pks = list(self.filter(NOT_GONE).order_by("pk").values_list("pk", flat=True))
        Fork.objects.filter(repo__in=pks).update(status=ForkStatus.DELETED)
        Repo.objects.filter(pk__in=pks).update(deletion=deletion)

    def show(self) -> None:
        """Undo `hide`; `IntegrityError` if an owner has another fork of an upstream now."""
        from apps.repos.models.fork import Fork, ForkStatus

        pks = list(self.values_list("pk", flat=True))
        forks = Fork.objects.filter(repo__in=pks, status=ForkStatus.DELETED)
        forks.update(status=ForkStatus.COMPLETED)
        Repo.objects.filter(pk__in=pks).update(deletion=None)

    def under(self, owner: str) -> RepoQuerySet:
        """The repositories of `teams/<slug>` or `users/<username>`, in lower case."""
        kind, _, name = owner.partition("/")
        if kind == "teams":
            return self.filter(owner_team__slug=name)
        return self.filter(owner_user__username_key=name)

    def visible_to(self, principal: Principal) -> RepoQuerySet:
        """Repositories that the principal may read. `access.level_on` is the rule for one."""
        readable = reduce(or_, ways_to_read(principal))
        return self.filter(readable, covered_by(principal), NOT_GONE)

    def where_readable(self, principal: Principal, path: str) -> Q:
        """The condition for rows of another table whose repository, at this query path, is
        readable. It is a subquery: for a join, the databases would read all repositories first.
        """
        if principal.sees_all:
            return ~Q((f"{path}__in", self.gone().values("pk")))
        own = self.visible_to(principal).filter(pk=OuterRef(path)).order_by().values("pk")[:1]
        return Q(IsNull(Subquery(own), False))

    def few_visible_to(self, principal: Principal, most: int) -> list[int] | None:
        """The ids of readable repositories; None if there are more than `most`.

        A union of the conditions uses the index of each, which the disjunction in `visible_to`
        cannot. Repositories that fulfil two conditions count twice, so that at most `most` rows are
        read.
        """
        present = self.filter(NOT_GONE, covered_by(principal)).values_list("pk", flat=True)
        ways = [present.filter(way) for way in ways_to_read(principal)]
        ids = list(ways[0].union(*ways[1:], all=True)[: most + 1])
        return None if len(ids) > most else list(dict.fromkeys(ids))

    def taken(self, slugs: list[str]) -> set[str]:
        return set(self.filter(slug__in=slugs).values_list("slug", flat=True))

    def rows(self) -> models.QuerySet[Any, Any]:
        """Light rows for lists, like `RepoRow`."""
        return self.values_list(*RepoRow._fields, named=True)

    def by_path(self, paths: Iterable[str]) -> dict[str, Repo]:
        """The repositories with one of these paths in lower case, by path; one query."""
        condition = Q()
        for path in paths:
            owner, _, slug = path.rpartition("/")
            kind, _, name = owner.partition("/")
            key = "owner_team__slug" if kind == "teams" else "owner_user__username_key"
            condition |= Q(slug=slug, **{key: name})
        if not condition:
            return {}
        rows = self.filter(condition).select_related("owner_team", "owner_user")
        return {repo.path.lower(): repo for repo in rows}

    def paths(self) -> dict[int, str]:
        return {row[0]: RepoPath(*row).path for row in self.values_list(*RepoPath.columns())}

    def paths_known_to(self, principal: Principal, ids: Iterable[int | None]) -> dict[int, str]:
        """Paths by id, of those among `ids` that the principal may read. None without ids."""
        pks = {pk for pk in ids if pk is not None}
        return self.visible_to(principal).filter(pk__in=pks).paths() if pks else {}

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
    """The repository from which this one was forked."""
    fork_count = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=255)
    slug = models.CharField(max_length=REPO_SLUG_MAX)
    description = models.TextField(null=True)  # noqa: DJ001 - null: no description
    visibility = models.CharField(max_length=10, default=Visibility.PRIVATE)
    default_branch = models.CharField(max_length=255, default="main")
    head_due = models.BooleanField(default=False, db_default=False)
    """Whether git's HEAD still has to be pointed to the default branch; see `point_head`."""
    is_empty = models.BooleanField(default=True)
    is_archived = models.BooleanField(default=False)
    last_number = models.BigIntegerField(default=0)
    """The newest number given to a thread or pull; see `take_number`."""
    pushed_at = models.DateTimeField(null=True)
    tidied_at = models.DateTimeField(null=True)
    """The last time its folder was packed; see apps/repos/jobs.py."""
    pushes_read_to = models.BigIntegerField(default=0, db_default=0)
    """The id of the last event that was read for `CommitPush`; see apps/browse/pushers.py."""
    pushes_read_at = models.DateTimeField(null=True)
    """The `pushed_at` up to which these events were read."""
    disk_bytes = models.BigIntegerField(default=0, db_default=0)
    """The size of its folder when it was last measured; see apps/repos/quota.py."""
    deletion = deletion_field("repos")
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
            models.Index(fields=["id"], condition=HEAD_DUE, name="repo_head_due"),
            models.Index(fields=["pushed_at"], condition=PUSHES_DUE, name="repo_pushes_due"),
            models.Index(fields=["visibility"], condition=SHOWN, name="repo_shown"),
            models.Index(fields=["slug"], name="repo_by_slug", opclasses=["varchar_pattern_ops"]),
            models.Index(fields=["deletion"], condition=GONE, name="repo_gone"),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def owner(self) -> Team | User:
        return cast("Team | User", self.owner_team or self.owner_user)

    @property
    def path(self) -> str:
        """`teams/acme/api`, as in the page's URL, the clone URL and the event scope."""
        return f"{self.owner.path}/{self.slug}"

    @property
    def full_name(self) -> str:
        """`acme/api`, which a person types to delete it."""
        return self.path.partition("/")[2]

    @property
    def api_path(self) -> str:
        """`/teams/acme/repos/api`, below the API's prefix."""
        return f"/{self.owner.path}/repos/{self.slug}"

    @property
    def pushes_due(self) -> bool:
        """Whether it fulfils `PUSHES_DUE`."""
        return self.pushed_at != self.pushes_read_at and self.pushed_at is not None

    @property
    def git(self) -> GitRepo:
        """The repository on disk. The path is made of the uuid, so that renames do not move it."""
        text = str(self.uuid)
        root: Path = settings.REPOSITORIES_DIR
        return GitRepo(root / text[:2] / text[2:4] / f"{text}.git")

    def take_number(self) -> int:
        """The next number for a thread or pull. The caller holds this row's lock."""
        self.last_number += 1
        Repo.objects.filter(pk=self.pk).update(last_number=F("last_number") + 1)
        return self.last_number

    def take_slug(self) -> None:
        """Remove this slug from the former slugs of the owner's repositories."""
        FormerRepoSlug.objects.filter(slug=self.slug, repo__in=self.owner.repos.all()).delete()

    def branch_sha(self, branch: str) -> str | None:
        """The stored head of a branch; None if there is no such branch."""
        refs = self.refs.filter(full_name=BRANCHES + branch)
        return refs.values_list("sha", flat=True).first()

    def event_keys(self) -> Keys:
        return Keys(team=self.owner_team_id, repo=self.pk)

    def event_target(self) -> Target:
        return Target("repo", {"slug": self.slug}, web="", api="")

    def event_title(self) -> None:
        return None


class FormerRepoSlug(models.Model):
    """A former slug. It leads to the repository until another one of the owner takes it."""

    repo = models.ForeignKey(Repo, on_delete=models.CASCADE, related_name="former_slugs")
    slug = models.CharField(max_length=REPO_SLUG_MAX)

    class Meta:
        indexes = [models.Index(fields=["slug", "repo"], name="former_repo_slug")]

    def __str__(self) -> str:
        return f"{self.slug}, now {self.repo_id}"
