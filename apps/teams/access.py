"""Access to teams and to the resources below `/teams/{team_slug}`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import F, FilteredRelation, Q, QuerySet

from apps.accounts.access import ResourceAccess
from apps.accounts.models import NOT_GONE
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import Forbidden
from apps.core.lookup import Missing, get_or_missing
from apps.core.statements import Parameter, Statement
from apps.core.views import ApiViewSet, site_url
from apps.teams.models import LEVEL_OF, Member, Role, Team

BY_SLUG = Statement(
    lambda: annotate_role(Team.objects.filter(NOT_GONE, slug=Parameter("slug")), "members")
)


def annotate_role(rows: QuerySet[Any], members: str) -> Any:
    """Annotate rows with `role`, that of the parameter `person` among `members`, a query path."""
    own = Q((f"{members}__user", Parameter("person")))
    return rows.annotate(own_member=FilteredRelation(members, condition=own)).annotate(
        role=F("own_member__role")
    )


@dataclass(frozen=True)
class TeamAccess(ResourceAccess):
    """A principal's access to a team; `requested` is the slug in the request."""

    owner: Team
    requested: str
    needs_factor: bool = False
    """As in `lacks_factor`."""

    @property
    def team(self) -> Team:
        return self.owner

    @property
    def name(self) -> str:
        return self.team.path

    @property
    def api_path(self) -> str:
        return f"/{self.team.path}"

    @property
    def moved(self) -> bool:
        return self.team.slug != self.requested

    def check_holds(self, member: Member) -> None:
        """`ValueError` if the member belongs to another team."""
        if member.team_id != self.team.pk:
            raise ValueError(f"{member!r} is not in {self.team!r}")

    def require(self, required: Level) -> None:
        """403 `second_factor_required` for a member who has none, or as `Access.require`."""
        check_factor(self, required)
        super().require(required)

    def check_open(self, *, writing: bool) -> None:
        """403 `team_inactive` for an inactive team, which only members and staff may read."""
        if not self.team.is_active and (writing or self.level is Level.NONE):
            raise inactive_team(self.team, self.level)


def inactive_team(team: Team, level: Level) -> Forbidden:
    """403 `team_inactive`, for a caller with this level."""
    # Outsiders do not get the slug: with a former slug they would learn the current one.
    name = "The team" if level is Level.NONE else f"The team {team.slug}"
    return Forbidden("team_inactive", f"{name} has been deactivated.")


def lacks_factor(principal: Principal, team: Team | None, role: str | None) -> bool:
    """Whether a person with this role in a team has no access by it because the team requires a
    second factor and they have none.
    """
    if role is None or team is None:
        return False
    return principal.lacks_second_factor and team.second_factor_required


def check_factor(access: Any, required: Level) -> None:
    """403 `second_factor_required` if the access lacks this level, and has `needs_factor`."""
    if access.needs_factor and access.granted < required:
        raise Forbidden(
            "second_factor_required",
            f"The team requires a second factor. Add one at {site_url()}/settings/second-factor.",
        )


def team_level(principal: Principal, team: Team | None, role: str | None) -> Level:
    """The level of a person with this role in a team. Staff is like an owner everywhere."""
    if principal.is_of_staff:
        return Level.OWNER
    if role is None or lacks_factor(principal, team, role):
        return Level.NONE
    return LEVEL_OF[Role(role)]


def access_to_team(principal: Principal, team: Team) -> TeamAccess:
    """Access to a loaded team; one query for the role."""
    role = None if principal.is_of_staff else team.role_of(principal.person_id)
    return _access(principal, team, role, team.slug)


def _access(principal: Principal, team: Team, role: str | None, requested: str) -> TeamAccess:
    level = team_level(principal, team, role) if team.deletion_id is None else Level.NONE
    needs_factor = lacks_factor(principal, team, role)
    return TeamAccess(principal, level, team, requested, needs_factor)


def find_team(principal: Principal, slug: str, *, former: bool = False) -> TeamAccess:
    """Access of any level to the team of this slug, in lower case; one query. 404.

    With `former`, former slugs are tried next, in two more queries.
    """
    team = BY_SLUG.first(person=principal.person_id, slug=slug)
    if team is not None:
        return _access(principal, team, team.role, slug)
    if not former:
        raise Missing("team", slug)
    team = get_or_missing(Team.objects.filter(NOT_GONE), "team", former_slugs__slug=slug)
    return replace(access_to_team(principal, team), requested=slug)


def open_team(
    principal: Principal,
    slug: str,
    *,
    needs: Level = Level.READ,
    writing: bool = False,
    former: bool = False,
) -> TeamAccess:
    """Access to the team of this slug. 404, 403 `team_inactive`, 403 below the level `needs`."""
    access = find_team(principal, slug, former=former)
    access.check_open(writing=writing)
    access.require(needs)
    return access


class TeamScoped(ApiViewSet):
    """A resource of a team. `HasLevel` checks the level, to keep the order of errors."""

    principal: Principal
    access: TeamAccess

    def open(self) -> TeamAccess | None:
        return open_team(
            self.principal,
            self.kwargs["team_slug"],
            needs=Level.NONE,
            writing=self.is_writing and not self.even_inactive,
            former=not self.is_writing,
        )

    @property
    def even_inactive(self) -> bool:
        """Whether the operation is allowed for an inactive team."""
        return self.operation.even_inactive

    @property
    def team(self) -> Team:
        return self.access.team
