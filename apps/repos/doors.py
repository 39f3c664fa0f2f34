"""The doors to repositories: their owner for lists, the repository for everything below it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.accounts.models import User
from apps.core.access import Level, Place
from apps.core.statements import Statement
from apps.core.views import ApiViewSet
from apps.repos.models import Repo
from apps.teams.doors import find_team
from apps.teams.models import Team, level_with

OF_TEAM = Statement(
    """
    SELECT {repo}, {team}, member.role FROM "repos_repo" repo
    JOIN "teams_team" team ON team.id = repo.owner_team_id
    LEFT JOIN "teams_member" member ON member.team_id = team.id AND member.user_id = %s
    WHERE team.slug = %s AND repo.slug = %s
    """,
    repo=Repo,
    team=Team,
)
OF_USER = Statement(
    """
    SELECT {repo}, {person} FROM "repos_repo" repo
    JOIN "accounts_user" person ON person.id = repo.owner_user_id
    WHERE person.username_key = %s AND repo.slug = %s
    """,
    repo=Repo,
    person=User,
)
Caller = User | AnonymousUser


def find_owner(
    kwargs: dict[str, Any], caller: Caller, *, former: bool = False
) -> tuple[Team | User, Level]:
    """The team or user that a path names, and the caller's level there; with `former` also by a
    slug that it gave up. 404.
    """
    if "team_slug" in kwargs:
        return find_team(kwargs["team_slug"], caller, former=former)
    user = get_object_or_404(User, username_key=kwargs["username"])
    return user, user.access(caller)


def find_repo(
    kwargs: dict[str, Any], caller: Caller, *, former: bool = False
) -> tuple[Repo, Level]:
    """The repository that a path names, with its owner loaded, and the caller's level on it, in
    one query; 404.

    With `former` a repository is also found by what it or its team was called before, in three
    queries more: today's names come first.
    """
    found = _of_team(kwargs, caller) if "team_slug" in kwargs else _of_user(kwargs, caller)
    if found is not None:
        return found
    if not former:
        raise Http404
    owner, level = find_owner(kwargs, caller, former=True)
    slug = kwargs["repo_slug"]
    repo = (
        owner.repos.filter(slug=slug).first() or owner.repos.filter(former_slugs__slug=slug).first()
    )
    if repo is None:
        raise Http404
    return repo, repo.level_with(level, caller)


def _of_team(kwargs: dict[str, Any], caller: Caller) -> tuple[Repo, Level] | None:
    found = OF_TEAM.first(caller.pk, kwargs["team_slug"], kwargs["repo_slug"])
    if found is None:
        return None
    repo: Repo
    repo, repo.owner_team, role = found
    return repo, repo.level_with(level_with(role, caller), caller)


def _of_user(kwargs: dict[str, Any], caller: Caller) -> tuple[Repo, Level] | None:
    found = OF_USER.first(kwargs["username"], kwargs["repo_slug"])
    if found is None:
        return None
    repo: Repo
    repo, repo.owner_user = found
    return repo, repo.level_with(repo.owner.access(caller), caller)


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
        former = not self.writing
        self.owner, self.found_level = find_owner(self.kwargs, self.caller, former=former)
        if isinstance(self.owner, Team) and self.owner.slug != self.kwargs["team_slug"]:
            self.moved_to = self.owner.api_path
        return self.owner


class InRepo(ApiViewSet):
    """The place is the repository of the path."""

    repo: Repo

    def find_place(self) -> Place | None:
        former = not self.writing
        self.repo, self.found_level = find_repo(self.kwargs, self.caller, former=former)
        if has_moved(self.repo, self.kwargs):
            self.moved_to = self.repo.api_path
        return self.repo
