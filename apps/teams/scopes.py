"""The event scope `team:<team_slug>`: everything in the team and its repositories."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.principal import Principal
from apps.events.models import Key
from apps.teams.access import open_team
from apps.teams.models import Team


class TeamEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        """The team's key. The slug may be a former one."""
        return Key("team_id", open_team(principal, text.lower(), former=True).team.pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        return dict(Team.objects.filter(pk__in=ids).values_list("pk", "slug"))

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        return Team.objects.readable_by(principal).values("pk")
