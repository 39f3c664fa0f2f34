"""The filters of the list of threads."""

from __future__ import annotations

from apps.core.filters import OrderingFilter, SearchFilter, StrictFilterSet, TextFilter, WordFilter
from apps.threads import rules
from apps.threads.kinds import Priority, ThreadStatus
from apps.threads.models import ThreadQuerySet


class ThreadFilterSet(StrictFilterSet):
    status = WordFilter(ThreadStatus)
    kind = WordFilter(rules.KINDS)
    priority = WordFilter(Priority)
    created_by = TextFilter("The author's username, ignoring case.", method="by_author")
    search = SearchFilter("Part of a title or body, ignoring case.")
    ordering = OrderingFilter(rules.ORDERINGS, help_text="The default is `-number`: newest first.")

    def by_author(self, rows: ThreadQuerySet, name: str, text: str) -> ThreadQuerySet:
        return rows.filter(created_by__username_key=text.lower())
