"""The doors to repositories: their owner for lists, the repository for everything below it."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404

from apps.accounts.models import User
from apps.core.access import Place
from apps.core.views import ApiViewSet
from apps.repos.models import Repo
from apps.teams.models import Team


def find_owner(kwargs: dict[str, Any]) -> Team | User:
    """The team or user that a path names; 404."""
    if "team_slug" in kwargs:
        return get_object_or_404(Team, slug=kwargs["team_slug"])
    return get_object_or_404(User, username_key=kwargs["username"])


def find_repo(kwargs: dict[str, Any]) -> Repo:
    """The repository that a path names, with its owner loaded, in one query; 404."""
    return get_object_or_404(Repo.objects.under(kwargs), slug=kwargs["repo_slug"])


class InRepo(ApiViewSet):
    """The place is the repository of the path."""

    repo: Repo

    def find_place(self) -> Place | None:
        self.repo = find_repo(self.kwargs)
        return self.repo
