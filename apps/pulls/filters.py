"""The filters of the list of pulls."""

from __future__ import annotations

from apps.core.filters import OrderingFilter, SearchFilter, StrictFilterSet, TextFilter, WordFilter
from apps.pulls import rules
from apps.pulls.models import PullQuerySet, PullStatus


class PullFilterSet(StrictFilterSet):
    status = WordFilter(PullStatus)
    created_by = TextFilter("The author's username, ignoring case.", method="by_author")
    search = SearchFilter("Part of a title or body, ignoring case.")
    ordering = OrderingFilter(rules.ORDERINGS, help_text="The default is `-number`: newest first.")

    def by_author(self, rows: PullQuerySet, name: str, text: str) -> PullQuerySet:
        return rows.filter(thread__created_by__username_key=text.lower())
