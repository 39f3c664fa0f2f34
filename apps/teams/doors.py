"""The door to everything under `/teams/{team_slug}`."""

from __future__ import annotations

from django.shortcuts import get_object_or_404

from apps.core.views import ApiViewSet
from apps.teams.models import Team


class InTeam(ApiViewSet):
    """Loads the team of the path as the place."""

    team: Team

    def find_place(self) -> Team | None:
        self.team = get_object_or_404(Team, slug=self.kwargs["team_slug"])
        return self.team
