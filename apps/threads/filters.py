"""The filters of the lists of threads."""

from __future__ import annotations

from apps.accounts.filters import PersonFilter, UsernameFilter
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.filters import (
    OrderingFilter,
    SearchFilter,
    StrictFilterSet,
    TextFilter,
    WordFilter,
    WordsFilter,
)
from apps.core.search import title_holds
from apps.threads import rules
from apps.threads.models import Priority, ThreadQuerySet, ThreadStatus, thread_ids_of

NARROW = {"created_by", "participant", "awaiting_review_from", "search"}
"""The filters with an index of their own across repositories; see `CrossRepoList.is_narrow`."""


def written_by(rows: ThreadQuerySet, person: User, _caller: Principal) -> ThreadQuerySet:
    return rows.filter(created_by=person.pk)


def with_participant(rows: ThreadQuerySet, person: User, _caller: Principal) -> ThreadQuerySet:
    return rows.filter(pk__in=thread_ids_of(person))


class AnyThreadFilterSet(StrictFilterSet):
    """The filters of both lists."""

    status = WordsFilter(ThreadStatus, help_text="Of this status; several are joined.")
    kind = WordFilter(rules.KINDS)
    priority = WordFilter(Priority)


class ThreadFilterSet(AnyThreadFilterSet):
    """The filters of a repository's list."""

    created_by = UsernameFilter("Who opened it.", "created_by__username_key")
    search = SearchFilter("Part of a title or body, ignoring case.")
    ordering = OrderingFilter(rules.ORDERINGS, help_text="The default is `-number`: newest first.")


class CrossRepoThreadFilterSet(AnyThreadFilterSet):
    """The filters of the list across repositories."""

    created_by = PersonFilter("Who opened it.", written_by)
    participant = PersonFilter("Who opened it, or has a reply in it.", with_participant)
    search = TextFilter("Part of a title, ignoring case.", method="by_title")

    def by_title(self, rows: ThreadQuerySet, name: str, text: str) -> ThreadQuerySet:
        return rows.filter(title_holds("title", text))
