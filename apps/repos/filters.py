"""The filters of the lists of repositories."""

from __future__ import annotations

from apps.core.filters import SearchFilter, StrictFilterSet


class RepoFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, slug or description, ignoring case.")
