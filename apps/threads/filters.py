"""The filters of the list of threads."""

from __future__ import annotations

from apps.core.filters import StrictFilterSet, TextFilter, WordFilter
from apps.threads import rules
from apps.threads.models import Priority, ThreadQuerySet, ThreadStatus


class ThreadFilterSet(StrictFilterSet):
    status = WordFilter(ThreadStatus)
    kind = WordFilter(rules.KINDS)
    priority = WordFilter(Priority)
    created_by = TextFilter("by_author", "The author's username, ignoring case.")
    search = TextFilter("by_text", "Part of a title or body, ignoring case.")
    ordering = WordFilter(
        rules.ORDERINGS,
        method="in_order",
        help_text="The default is `-number`: newest first.",
    )

    def by_author(self, rows: ThreadQuerySet, name: str, text: str) -> ThreadQuerySet:
        return rows.filter(created_by__username_key=text.lower())

    def by_text(self, rows: ThreadQuerySet, name: str, text: str) -> ThreadQuerySet:
        return rows.search(text)

    def in_order(self, rows: ThreadQuerySet, name: str, ordering: str) -> ThreadQuerySet:
        return rows.in_order(ordering)
