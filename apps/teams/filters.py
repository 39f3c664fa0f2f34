"""The filters of the list of teams."""

from __future__ import annotations

from apps.core.filters import StrictFilterSet, TextFilter
from apps.teams.models import TeamQuerySet


class TeamFilterSet(StrictFilterSet):
    search = TextFilter("by_text", "Part of a name or slug, ignoring case.")

    def by_text(self, rows: TeamQuerySet, name: str, text: str) -> TeamQuerySet:
        return rows.search(text)
