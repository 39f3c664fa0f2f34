"""The event scope `team:<team_slug>`: everything in the team and its repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from apps.core.access import Level, check_level
from apps.events.models import Key
from apps.teams.doors import find_team
from apps.teams.models import Team

if TYPE_CHECKING:
    from apps.accounts.models import User


class TeamScope:
    def key(self, user: User, text: str) -> Key:
        team, level = find_team(text.lower(), user, former=False)
        team.check_open(user, writing=False)
        check_level(team, user, Level.READ, known=level)
        return Key("team_id", team.pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        return dict(Team.objects.filter(pk__in=ids).values_list("pk", "slug"))

    def readable(self, user: User) -> QuerySet[Any, Any]:
        return Team.objects.readable_by(user).values("pk")
