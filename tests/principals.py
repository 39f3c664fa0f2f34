"""Principals and access for tests that call actions and queries themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apps.accounts.access import UserAccess
from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.repos.access import RepoAccess, access_to, access_to_owner
from apps.repos.models import Repo, Visibility
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import Team


def principal_of(person: Any) -> Principal:
    """The principal of a session of this person; anonymous if it is no user."""
    return Principal(person) if isinstance(person, User) else ANONYMOUS


def access_of(person: Any, repo: Repo) -> RepoAccess:
    """The access of this person to a repository."""
    return access_to(principal_of(person), repo)


def team_access_of(person: Any, team: Team) -> TeamAccess:
    """The access of this person to a team."""
    return access_to_team(principal_of(person), team)


def space_access_of(person: Any, owner: Any) -> TeamAccess | UserAccess:
    """The access of this person to the space of a team or of somebody."""
    return access_to_owner(principal_of(person), owner)


@contextmanager
def while_allowed(repo: Repo, *people: User) -> Iterator[None]:
    """In the block everybody may read the repository, and these people are active: rows by people
    without access can be created.
    """
    visibility, active = repo.visibility, [person.is_active for person in people]
    _set(repo, Visibility.PUBLIC, people, [True] * len(people))
    try:
        yield
    finally:
        _set(repo, visibility, people, active)


def _set(repo: Repo, visibility: str, people: tuple[User, ...], active: list[bool]) -> None:
    repo.visibility = visibility
    repo.save(update_fields=["visibility"])
    for person, is_active in zip(people, active, strict=True):
        person.is_active = is_active
