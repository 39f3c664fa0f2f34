"""The door to everything under `/teams/{team_slug}`."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.statements import Statement
from apps.core.views import ApiViewSet
from apps.teams.models import Team, level_with

BY_SLUG = Statement(
    """
    SELECT {team}, member.role FROM "teams_team" team
    LEFT JOIN "teams_member" member ON member.team_id = team.id AND member.user_id = %s
    WHERE team.slug = %s
    """,
    team=Team,
)


def find_team(slug: str, caller: User | AnonymousUser, *, former: bool) -> tuple[Team, Level]:
    """The team at this slug, and the caller's level on it; with `former` also a team that gave the
    slug up. 404.
    """
    found = BY_SLUG.first(caller.pk, slug)
    if found is not None:
        team, role = found
        return team, level_with(role, caller)
    if not former:
        raise Http404
    team = get_object_or_404(Team, former_slugs__slug=slug)
    return team, team.access(caller)


class InTeam(ApiViewSet):
    """Loads the team of the path as the place."""

    team: Team

    def find_place(self) -> Team | None:
        slug = self.kwargs["team_slug"]
        self.team, self.found_level = find_team(slug, self.caller, former=not self.writing)
        if self.team.slug != slug:
            self.moved_to = self.team.api_path
        return self.team
