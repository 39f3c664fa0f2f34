"""The event scope `team:<team_slug>`: everything in the team and its repositories."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import NOT_GONE
from apps.accounts.principal import Principal
from apps.core.statements import Statement, padded, parameters
from apps.events.models import Key
from apps.teams.access import open_team
from apps.teams.models import Team


@cache
def _slugs(count: int) -> Statement:
    named: dict[str, Any] = {"pk__in": parameters("ids", count)}
    rows = Team.objects.filter(NOT_GONE, **named)
    return Statement(lambda: rows.values_list("pk", "slug"))


class TeamEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        """The team's key. The slug may be a former one."""
        return Key("team_id", open_team(principal, text.lower(), former=True).team.pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        some = padded(ids)
        return dict(_slugs(len(some)).all(ids=some))

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        return Team.objects.readable_by(principal).values("pk")
