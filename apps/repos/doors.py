"""The doors to repositories: their owner for lists, the repository for everything below it."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.accounts.models import User
from apps.core.access import Place
from apps.core.views import ApiViewSet
from apps.repos.models import Repo
from apps.teams.doors import find_team
from apps.teams.models import Team


def find_owner(kwargs: dict[str, Any], *, former: bool = False) -> Team | User:
    """The team or user that a path names; with `former` also by a slug it gave up. 404."""
    if "team_slug" in kwargs:
        return find_team(kwargs["team_slug"], former=former)
    return get_object_or_404(User, username_key=kwargs["username"])


def find_repo(kwargs: dict[str, Any], *, former: bool = False) -> Repo:
    """The repository that a path names, with its owner loaded, in one query; 404.

    With `former` a repository is also found by what it or its team was called before, in three
    queries more: today's names come first.
    """
    repo = Repo.objects.under(kwargs).filter(slug=kwargs["repo_slug"]).first()
    if repo is not None:
        return repo
    if not former:
        raise Http404
    owner = find_owner(kwargs, former=True)
    slug = kwargs["repo_slug"]
    repo = (
        owner.repos.filter(slug=slug).first() or owner.repos.filter(former_slugs__slug=slug).first()
    )
    if repo is None:
        raise Http404
    return repo


def has_moved(repo: Repo, kwargs: dict[str, Any]) -> bool:
    """The path has a former slug of the repository or of its team."""
    owner = repo.owner_team
    return repo.slug != kwargs["repo_slug"] or (
        owner is not None and owner.slug != kwargs["team_slug"]
    )


class InOwner(ApiViewSet):
    """The place is the team or user of the path, in whose space repositories are."""

    owner: Team | User

    def find_place(self) -> Place | None:
        self.owner = find_owner(self.kwargs, former=not self.writing)
        if isinstance(self.owner, Team) and self.owner.slug != self.kwargs["team_slug"]:
            self.moved_to = self.owner.api_path
        return self.owner


class InRepo(ApiViewSet):
    """The place is the repository of the path."""

    repo: Repo

    def find_place(self) -> Place | None:
        self.repo = find_repo(self.kwargs, former=not self.writing)
        if has_moved(self.repo, self.kwargs):
            self.moved_to = self.repo.api_path
        return self.repo
