"""Queries for repositories, protections and forks, for the API, pages and admin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from django.conf import settings
from django.db.models import Exists, F, Q, QuerySet

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.statements import Parameter, Statement
from apps.events.record import Recorded
from apps.repos.access import OwnerAccess
from apps.repos.models import (
    BRANCHES,
    Approver,
    Fork,
    ForkQuerySet,
    ForkStatus,
    Protection,
    ProtectionQuerySet,
    Repo,
    RepoQuerySet,
    RepoRow,
)
from apps.teams.access import team_level
from apps.teams.models import Team
from apps.teams.queries import accessible_teams


def _all_of(owner: str) -> Statement:
    def rows() -> QuerySet[Any, Any]:
        own = Repo.objects.filter(NOT_GONE, **{owner: Parameter("owner")})
        return own.order_by("slug").rows()

    return Statement(rows, RepoRow)


ALL_OF = {Team: _all_of("owner_team"), User: _all_of("owner_user")}
"""The rows of `list_repos` for people who may read all of them."""


def list_repos(space: OwnerAccess, *, to_filter: bool = False) -> Any:
    """The owner's repositories that the caller may read, as light rows ordered by slug. They are to
    be sliced; with `to_filter` they are a queryset.
    """
    owner: Team | User = space.owner
    if space.level is not Level.NONE and not to_filter:
        return ALL_OF[type(owner)].of(owner=owner.pk)
    rows = owner.repos.filter(NOT_GONE).order_by("slug")
    if space.level is Level.NONE:
        rows = rows & Repo.objects.visible_to(space.principal)
    return rows.rows()


def spaces_of(principal: Principal) -> list[str]:
    """The paths of the spaces in which a person may create repositories: their own, then those of
    their active teams, ordered by slug.
    """
    teams: Any = accessible_teams(principal).filter(is_active=True)
    levels = {team.path: team_level(principal, team, team.caller_role) for team in teams}
    own = [path for path, level in levels.items() if level >= Level.WRITE]
    return [principal.user.path, *own]


def newest_branches(repo: Repo, most: int) -> list[str]:
    """The names of at most `most` branches, most recently pushed first."""
    names = repo.refs.branches().in_order("-updated_at").values_list("full_name", flat=True)
    return [name.removeprefix(BRANCHES) for name in names[:most]]


def list_own_repos(principal: Principal) -> RepoQuerySet:
    """The repositories of a person and of their teams, most recently pushed first."""
    teams = Team.objects.visible_to(principal).open_to(principal).values("pk")
    own = Q(owner_user=principal.user.pk) | Q(owner_team__in=teams)
    rows = Repo.objects.filter(own, NOT_GONE)
    return _by_last_push(rows)


def list_readable_repos(principal: Principal) -> RepoQuerySet:
    """All repositories that the principal may read, most recently pushed first."""
    return _by_last_push(Repo.objects.visible_to(principal))


def _by_last_push(rows: RepoQuerySet) -> RepoQuerySet:
    pushed = F("pushed_at").desc(nulls_last=True)
    return rows.select_related("owner_team", "owner_user").order_by(pushed, "-id")


def list_protections(repo: Repo) -> ProtectionQuerySet:
    """A repository's protections, oldest first, with the relations of their records."""
    return repo.protections.with_people().order_by("created_at", "id")


def list_approvers(protection: Protection) -> QuerySet[Approver]:
    """The approvers of a protection, oldest first, with `added_by`."""
    rows = protection.approvers.select_related("user", "added_by")
    return rows.order_by("created_at", "id")


def list_forks(principal: Principal, upstream: Repo) -> ForkQuerySet:
    """The forks that the principal may read, newest first, with the relations of their records."""
    forks = upstream.forks.with_paths().visible_to(principal)
    return forks.order_by("-created_at", "-id")


def named_source(repo: Repo, text: str) -> tuple[Repo | None, str]:
    """The repository and the branch of a pull's source, such as `users/bob:topic`.

    A branch alone, or behind the owner of this repository, is in this repository. Behind another
    owner (`users/bob:topic`, `bob:topic`, `teams/core:topic`) it is in that owner's fork; None if
    there is no such fork.
    """
    name, colon, branch = text.rpartition(":")
    owner = name.lower()
    own = {repo.owner.path.lower()}
    if repo.owner_user is not None:
        own.add(repo.owner_user.username_key)
    if not colon or owner in own:
        return repo, branch
    kind, slash, slug = owner.rpartition("/")
    if (slash and kind not in {"teams", "users"}) or "\0" in slug:
        return None, branch
    owned = {"owner_team__slug": slug} if kind == "teams" else {"owner_user__username_key": slug}
    paths = ("repo__owner_team", "repo__owner_user")
    forks = Fork.objects.filter(upstream=repo, status=ForkStatus.COMPLETED, **owned)
    fork = forks.select_related(*paths).first()
    return fork.repo if fork else None, branch


class PullsOfCode(Protocol):
    """The functions of the module `settings.PULLS_OF_CODE`, which reads pulls for lower apps."""

    def head_of(self, repo: Repo, number: int) -> str | None:
        """The commit of a pull's head; None if there is no such pull."""

    def open_numbers(self, repo: Repo, branches: list[str]) -> dict[str, list[int]]:
        """Source branch -> numbers of its open and draft pulls, at most ten each. Only pulls from
        this repository into itself count.
        """

    def numbers_with(self, repo: Repo, sha: str) -> list[int]:
        """Numbers of at most ten pulls whose head or merge commit is this commit."""

    def active_with_head(self, repo: Repo, sha: str) -> Sequence[Recorded]:
        """At most ten open and draft pulls with this head."""

    def from_source_of(self, repo: int | Parameter) -> Exists:
        """The condition for rows with a `repo`: a pull comes from there into the repository with
        this id.
        """


@cache
def pulls_of_code() -> PullsOfCode:
    """The functions about pulls that lower apps call."""
    return cast("PullsOfCode", import_module(settings.PULLS_OF_CODE))
