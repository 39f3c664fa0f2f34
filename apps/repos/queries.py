"""What the API, the pages and the admin read of repositories, protections and forks."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Q, QuerySet

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
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
)
from apps.teams.access import team_level
from apps.teams.models import Team
from apps.teams.queries import list_teams


def list_repos(space: OwnerAccess) -> Any:
    """The repositories of a team or a person that the caller may read, as light rows by slug."""
    owner: Team | User = space.owner
    rows = owner.repos.order_by("slug")
    if space.level is Level.NONE:
        rows = rows & Repo.objects.visible_to(space.principal)
    return rows.rows()


def spaces_of(principal: Principal) -> list[str]:
    """The paths of the spaces where somebody may make repositories: their own, then those of their
    active teams, by slug.
    """
    teams: Any = list_teams(principal).filter(is_active=True)
    own = [team.path for team in teams if team_level(principal, team.caller_role) >= Level.WRITE]
    return [principal.user.path, *own]


def newest_branches(repo: Repo, most: int) -> list[str]:
    """The names of so many branches, what was pushed last first."""
    names = repo.refs.branches().in_order("-updated_at").values_list("full_name", flat=True)
    return [name.removeprefix(BRANCHES) for name in names[:most]]


def list_own_repos(principal: Principal) -> RepoQuerySet:
    """The repositories of a person and of their teams, those pushed to last first, with owners."""
    teams = Team.objects.visible_to(principal).values("pk")
    rows = Repo.objects.filter(Q(owner_user=principal.user.pk) | Q(owner_team__in=teams))
    return _lately(rows)


def list_readable_repos(principal: Principal) -> RepoQuerySet:
    """All repositories that one may read, those pushed to last first, with their owners."""
    return _lately(Repo.objects.visible_to(principal))


def _lately(rows: RepoQuerySet) -> RepoQuerySet:
    pushed = F("pushed_at").desc(nulls_last=True)
    return rows.select_related("owner_team", "owner_user").order_by(pushed, "-id")


def list_protections(repo: Repo) -> ProtectionQuerySet:
    """A repository's protections, oldest first, with what their records need."""
    return repo.protections.with_people().order_by("created_at", "id")


def list_approvers(protection: Protection) -> QuerySet[Approver]:
    """The approvers of a protection, oldest first, with who added each."""
    rows = protection.approvers.select_related("user", "added_by")
    return rows.order_by("created_at", "id")


def list_forks(principal: Principal, upstream: Repo) -> ForkQuerySet:
    """The forks of a repository that one may read, newest first, with what their records need."""
    forks = upstream.forks.with_paths().visible_to(principal)
    return forks.order_by("-created_at", "-id")


def named_source(repo: Repo, text: str) -> tuple[Repo | None, str]:
    """The repository and the branch that a source such as `users/bob:topic` names; None for a fork
    that is not there.

    A bare branch, or one behind the owner of this repository, is here; behind another owner it is
    in that owner's fork of it: `users/bob:topic`, `bob:topic`, `teams/core:topic`.
    """
    name, colon, branch = text.rpartition(":")
    owner = name.lower()
    own = {repo.owner.path.lower()}
    if repo.owner_user is not None:
        own.add(repo.owner_user.username_key)
    if not colon or owner in own:
        return repo, branch
    return _fork_of(repo, owner), branch


def _fork_of(repo: Repo, owner: str) -> Repo | None:
    """The fork in the space of `teams/<slug>`, `users/<username>` or `<username>`."""
    kind, slash, slug = owner.rpartition("/")
    if (slash and kind not in {"teams", "users"}) or "\0" in slug:
        return None
    owned = {"owner_team__slug": slug} if kind == "teams" else {"owner_user__username_key": slug}
    paths = ("repo__owner_team", "repo__owner_user")
    found = Fork.objects.filter(upstream=repo, status=ForkStatus.COMPLETED, **owned)
    fork = found.select_related(*paths).first()
    return fork.repo if fork else None
