"""The filters of the list of teams."""

from __future__ import annotations

from apps.core.filters import SearchFilter, StrictFilterSet


class TeamFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name or slug, ignoring case.")
