"""The filters of the list of pulls."""

from __future__ import annotations

from apps.core.filters import StrictFilterSet, TextFilter, WordFilter
from apps.pulls import rules
from apps.pulls.models import PullQuerySet, PullStatus


class PullFilterSet(StrictFilterSet):
    status = WordFilter(PullStatus)
    created_by = TextFilter("by_author", "The author's username, ignoring case.")
    search = TextFilter("by_text", "Part of a title or body, ignoring case.")
    ordering = WordFilter(
        rules.ORDERINGS,
        method="in_order",
        help_text="The default is `-number`: newest first.",
    )

    def by_author(self, rows: PullQuerySet, name: str, text: str) -> PullQuerySet:
        return rows.filter(thread__created_by__username_key=text.lower())

    def by_text(self, rows: PullQuerySet, name: str, text: str) -> PullQuerySet:
        return rows.search(text)

    def in_order(self, rows: PullQuerySet, name: str, ordering: str) -> PullQuerySet:
        return rows.in_order(ordering)
