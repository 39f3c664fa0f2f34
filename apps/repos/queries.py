"""What the API, the pages and the admin read of repositories, protections and forks."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.repos.access import OwnerAccess
from apps.repos.models import Approver, ForkQuerySet, Protection, ProtectionQuerySet, Repo
from apps.teams.models import Team


def list_repos(space: OwnerAccess) -> Any:
    """The repositories of a team or a person that the caller may read, as light rows by slug."""
    owner: Team | User = space.owner
    rows = owner.repos.order_by("slug")
    if space.level is Level.NONE:
        rows = rows & Repo.objects.visible_to(space.principal)
    return rows.rows()


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
