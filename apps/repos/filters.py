"""The filters of the lists of repositories."""

from __future__ import annotations

from apps.core.filters import StrictFilterSet, TextFilter
from apps.repos.models import RepoQuerySet


class RepoFilterSet(StrictFilterSet):
    search = TextFilter("by_text", "Part of a name, slug or description, ignoring case.")

    def by_text(self, rows: RepoQuerySet, name: str, text: str) -> RepoQuerySet:
        return rows.search(text)
