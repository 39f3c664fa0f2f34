"""The door to everything under `/teams/{team_slug}`."""

from __future__ import annotations

from django.http import Http404
from django.shortcuts import get_object_or_404

from apps.core.views import ApiViewSet
from apps.teams.models import Team


def find_team(slug: str, *, former: bool) -> Team:
    """The team at this slug; with `former` also one that gave the slug up. 404."""
    try:
        return get_object_or_404(Team, slug=slug)
    except Http404:
        if not former:
            raise
        return get_object_or_404(Team, former_slugs__slug=slug)


class InTeam(ApiViewSet):
    """Loads the team of the path as the place."""

    team: Team

    def find_place(self) -> Team | None:
        slug = self.kwargs["team_slug"]
        self.team = find_team(slug, former=not self.writing)
        if self.team.slug != slug:
            self.moved_to = self.team.api_path
        return self.team
