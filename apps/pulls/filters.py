"""The filters of the lists of pulls."""

from __future__ import annotations

from apps.accounts.filters import PersonFilter, UsernameFilter
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.filters import (
    OrderingFilter,
    SearchFilter,
    StrictFilterSet,
    TextFilter,
    WordsFilter,
)
from apps.core.search import title_holds
from apps.pulls import rules
from apps.pulls.models import MIRROR, PullQuerySet, PullStatus, Review
from apps.pulls.queries import awaiting_review_from
from apps.threads.models import thread_ids_of

STATUS_HELP = "Pulls with this status; with several, pulls with any of them."


def written_by(rows: PullQuerySet, person: User, _caller: Principal) -> PullQuerySet:
    return rows.filter(thread__created_by=person.pk)


def with_participant(rows: PullQuerySet, person: User, _caller: Principal) -> PullQuerySet:
    reviewed = Review.objects.filter(created_by=person.pk).values("pull__thread")
    return rows.filter(thread__in=thread_ids_of(person).union(reviewed))


class PullFilterSet(StrictFilterSet):
    """The filters of the list of one repository's pulls."""

    status = WordsFilter(PullStatus, help_text=STATUS_HELP)
    created_by = UsernameFilter(
        "Pulls that this person opened.", "thread__created_by__username_key"
    )
    search = SearchFilter("Pulls with this text in their title or body, ignoring case.")
    ordering = OrderingFilter(rules.ORDERINGS, help_text="The default is `-number`: newest first.")


class CrossRepoPullFilterSet(StrictFilterSet):
    """The filters of the list of pulls in all repositories."""

    created_by = PersonFilter("Pulls that this person opened.", written_by)
    status = WordsFilter(PullStatus, method="by_status", help_text=STATUS_HELP)
    awaiting_review_from = PersonFilter(
        "Open pulls that wait for a decision of this person.", awaiting_review_from
    )
    participant = PersonFilter(
        "Pulls that this person opened, replied to or reviewed.", with_participant
    )
    search = TextFilter("Pulls with this text in their title, ignoring case.", method="by_title")

    def by_status(self, rows: PullQuerySet, name: str, words: list[str]) -> PullQuerySet:
        """Filters by the thread's status too, because that column has an index."""
        thread_statuses = sorted({MIRROR[PullStatus(word)].value for word in words})
        return rows.filter(status__in=sorted({*words}), thread__status__in=thread_statuses)

    def by_title(self, rows: PullQuerySet, name: str, text: str) -> PullQuerySet:
        return rows.filter(title_holds("thread__title", text))
