"""Access to repositories, and to the team or the person who owns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404

from apps.accounts.access import ResourceAccess, UserAccess, access_to_user, open_user
from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Level
from apps.core.errors import ApiError, Conflict, Forbidden
from apps.core.locks import lock
from apps.core.lookup import Missing
from apps.core.slugs import TEAM_SLUG, USERNAME
from apps.core.statements import Parameter, Statement
from apps.core.views import ApiViewSet
from apps.repos.models import Repo, Visibility
from apps.teams.access import (
    TeamAccess,
    TeamScoped,
    access_to_team,
    annotate_role,
    check_factor,
    find_team,
    inactive_team,
    lacks_factor,
    open_team,
    team_level,
)
from apps.teams.models import Team

OF_TEAM = Statement(
    lambda: annotate_role(
        Repo.objects.filter(
            NOT_GONE, owner_team__slug=Parameter("owner"), slug=Parameter("slug")
        ).select_related("owner_team"),
        "owner_team__members",
    )
)
OF_USER = Statement(
    lambda: Repo.objects.filter(
        NOT_GONE, owner_user__username_key=Parameter("owner"), slug=Parameter("slug")
    ).select_related("owner_user")
)
BY_ID = Statement(
    lambda: annotate_role(
        Repo.objects.filter(NOT_GONE, pk=Parameter("pk")).select_related(
            "owner_team", "owner_user"
        ),
        "owner_team__members",
    )
)
OwnerAccess = TeamAccess | UserAccess


@dataclass(frozen=True)
class RepoAccess(ResourceAccess):
    """A principal's access to a repository; `requested` is the path in the request."""

    repo: Repo
    requested: str
    needs_factor: bool = False
    """As in `apps.teams.access.lacks_factor`."""

    @property
    def name(self) -> str:
        return self.repo.path

    @property
    def api_path(self) -> str:
        return self.repo.api_path

    @property
    def is_covered(self) -> bool:
        return self.principal.covers(self.repo.pk)

    @property
    def moved(self) -> bool:
        return self.repo.path.lower() != self.requested

    def require(self, required: Level) -> None:
        """403 `second_factor_required` for a member who has none, or as `Access.require`."""
        check_factor(self, required)
        super().require(required)

    def check_open(self, *, writing: bool) -> None:
        """403 if the owner is inactive: `team_inactive`, `owner_inactive`.

        Repositories of an inactive team are closed like the team. Those of a deactivated person can
        be read as before, but only staff may change them.
        """
        team, person = self.repo.owner_team, self.repo.owner_user
        if team is not None and not team.is_active and (writing or self.level is Level.NONE):
            raise inactive_team(team, self.level)
        if writing and person is not None and not person.is_active and not self.principal.is_staff:
            raise Forbidden("owner_inactive", f"The account {person.username} is deactivated.")

    def check_writable(self) -> None:
        """403 if the owner is inactive, 409 `repo_archived` if the repository is archived."""
        self.check_open(writing=True)
        if self.repo.is_archived:
            text = f"{self.repo.path} is archived and cannot be changed."
            raise Conflict("repo_archived", text)

    @property
    def is_writable(self) -> bool:
        """Whether `check_writable` passes."""
        try:
            self.check_writable()
        except ApiError:
            return False
        return True

    def check_holds(self, row: Any) -> None:
        """`ValueError` if the row belongs to another repository."""
        if row.repo_id != self.repo.pk:
            raise ValueError(f"{row!r} is not in {self.repo!r}")

    def locked(self) -> Repo:
        """Lock the repository and reload it; 409 if it has been archived meanwhile."""
        lock(self.repo)
        self.check_writable()
        return self.repo

    def renewed(self) -> RepoAccess:
        """This access with all rows reloaded; anonymous if the principal no longer exists. 404."""
        principal = self.principal.renewed() or ANONYMOUS
        repo = BY_ID.one(person=principal.person_id, pk=self.repo.pk)
        return _access(principal, repo, repo.role)


def level_on(principal: Principal, repo: Repo, role: str | None) -> Level:
    """The level of a person with this role in the team, like `RepoQuerySet.visible_to`.

    The credential may allow less: see `Access.level`.
    """
    if repo.deletion_id is not None:
        return Level.NONE
    owns = repo.owner_user_id is not None and repo.owner_user_id == principal.person_id
    owned = Level.OWNER if owns else team_level(principal, repo.owner_team, role)
    return _or_by_visibility(principal, repo, owned)


def _or_by_visibility(principal: Principal, repo: Repo, owned: Level) -> Level:
    """The level in the owner's space or, without one, the level by the repository's visibility."""
    if owned is not Level.NONE:
        return owned
    if repo.owner_team is not None and not repo.owner_team.is_active:
        return Level.NONE
    if repo.visibility == Visibility.PUBLIC:
        return Level.READ
    is_readable = principal.is_signed_in and repo.visibility == Visibility.INTERNAL
    return Level.READ if is_readable else Level.NONE


def access_to(principal: Principal, repo: Repo) -> RepoAccess:
    """Access to a loaded repository with its owner. One query for the role, if a team owns it."""
    team = repo.owner_team
    role = None if team is None or principal.is_of_staff else team.role_of(principal.person_id)
    return _access(principal, repo, role)


def _access(principal: Principal, repo: Repo, role: str | None) -> RepoAccess:
    level = level_on(principal, repo, role)
    needs_factor = lacks_factor(principal, repo.owner_team, role)
    return RepoAccess(principal, level, repo, repo.path.lower(), needs_factor)


def access_to_owner(principal: Principal, owner: Team | User) -> OwnerAccess:
    """Access to the space of a loaded owner."""
    if isinstance(owner, User):
        return access_to_user(principal, owner)
    return access_to_team(principal, owner)


def open_space(principal: Principal, path: str) -> OwnerAccess:
    """Access to the space of a new repository: `teams/<slug>` or `users/<username>`; 404, 403."""
    kind, _, name = path.lower().partition("/")
    if kind == "teams" and TEAM_SLUG.fullmatch(name):
        return open_team(principal, name, needs=Level.WRITE, writing=True)
    if kind == "users" and USERNAME.fullmatch(name):
        return open_user(principal, name, needs=Level.WRITE)
    raise Http404


def open_repo(
    principal: Principal,
    owner: str,
    slug: str,
    *,
    needs: Level = Level.READ,
    writing: bool = False,
    former: bool = False,
) -> RepoAccess:
    """Access to a repository by its owner's path and its slug, in lower case; one query.

    With `former`, former slugs of the repository and of its team are tried next, in up to three
    more queries. Errors: 404, those of `check_open`, 403 as in `Access.require`.
    """
    match = present = _by_present_names(principal, owner, slug)
    if match is None and former:
        match = _by_former_names(principal, owner, slug)
    if match is None:
        raise missing(principal, owner, slug)
    repo, level, needs_factor = match
    if former and level is Level.NONE and principal.person_id is None:
        # Make the remaining queries for a repository that is not there: the time of the answer
        # must not tell somebody who has not signed in that there is a private one.
        if present is not None:
            _by_former_names(principal, owner, "")
        missing(principal, owner, "")
    access = RepoAccess(principal, level, repo, f"{owner}/{slug}", needs_factor)
    access.check_open(writing=writing)
    access.require(needs)
    return access


def missing(principal: Principal, owner: str, slug: str) -> Missing:
    """The 404 for a missing repository. Raises a 404 for its owner if that is missing too."""
    _find_space(principal, owner)
    return Missing("repository", slug, owner)


def _find_space(principal: Principal, owner: str) -> OwnerAccess:
    """The space by its owner's current or former name, at any level; 404."""
    kind, _, name = owner.partition("/")
    if kind == "teams":
        return find_team(principal, name, former=True)
    return open_user(principal, name, needs=Level.NONE)


Match = tuple[Repo, Level, bool]
"""A repository by its name, the caller's level, and whether they need a second factor."""


def _by_present_names(principal: Principal, path: str, slug: str) -> Match | None:
    kind, _, name = path.partition("/")
    if kind == "teams":
        repo = OF_TEAM.first(person=principal.person_id, owner=name, slug=slug)
        if repo is None:
            return None
        needs_factor = lacks_factor(principal, repo.owner_team, repo.role)
        return repo, level_on(principal, repo, repo.role), needs_factor
    repo = OF_USER.first(owner=name, slug=slug) if kind == "users" else None
    return repo and (repo, level_on(principal, repo, None), False)


def _by_former_names(principal: Principal, path: str, slug: str) -> Match | None:
    """The repository by a former slug of its own or of its team, and the caller's level."""
    space = _find_space(principal, path)
    repos = space.owner.repos.filter(NOT_GONE)
    # Both are always asked for, for the same reason as in `open_repo`.
    present, moved = repos.filter(slug=slug).first(), repos.filter(former_slugs__slug=slug).first()
    repo = present or moved
    if repo is None:
        return None
    needs_factor = isinstance(space, TeamAccess) and space.needs_factor
    return repo, _or_by_visibility(principal, repo, space.granted), needs_factor


def owner_path(kwargs: dict[str, Any]) -> str:
    """The owner's path from the URL's parameters: `teams/acme` or `users/ada`."""
    team = kwargs.get("team_slug")
    return f"users/{kwargs['username']}" if team is None else f"teams/{team}"


class OwnerScoped(TeamScoped):
    """A resource in the space of a team or a person."""

    access: Any

    def open(self) -> Any:
        if "username" in self.kwargs:
            return open_user(self.principal, self.kwargs["username"], needs=Level.NONE)
        return super().open()


class RepoScoped(ApiViewSet):
    """A resource in a repository. `HasLevel` checks the level."""

    principal: Principal
    access: RepoAccess

    def open(self) -> RepoAccess | None:
        return open_repo(
            self.principal,
            owner_path(self.kwargs),
            self.kwargs["repo_slug"],
            needs=Level.NONE,
            writing=self.is_writing,
            former=not self.is_writing,
        )

    @property
    def repo(self) -> Repo:
        return self.access.repo
