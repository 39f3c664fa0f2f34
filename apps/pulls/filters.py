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
from apps.core.search import holds
from apps.pulls import rules
from apps.pulls.models import MIRROR, PullQuerySet, PullStatus, Review
from apps.pulls.queries import awaiting_review_from
from apps.threads.across import threads_of


def written_by(rows: PullQuerySet, person: User, _caller: Principal) -> PullQuerySet:
    return rows.filter(thread__created_by=person.pk)


def with_participant(rows: PullQuerySet, person: User, _caller: Principal) -> PullQuerySet:
    reviewed = Review.objects.filter(created_by=person.pk).values("pull__thread")
    return rows.filter(thread__in=threads_of(person).union(reviewed))


class PullFilterSet(StrictFilterSet):
    """Of one repository."""

    status = WordsFilter(PullStatus, help_text="Of this status; several are joined.")
    created_by = UsernameFilter("Who opened it.", "thread__created_by__username_key")
    search = SearchFilter("Part of a title or body, ignoring case.")
    ordering = OrderingFilter(rules.ORDERINGS, help_text="The default is `-number`: newest first.")


class PullsAcrossFilterSet(StrictFilterSet):
    """Of all repositories."""

    created_by = PersonFilter("Who opened it.", written_by)
    status = WordsFilter(
        PullStatus, method="by_status", help_text="Of this status; several are joined."
    )
    awaiting_review_from = PersonFilter(
        "Open pulls that wait for a decision of this person.", awaiting_review_from
    )
    participant = PersonFilter("Who opened it, or has a reply or a review in it.", with_participant)
    search = TextFilter("Part of a title, ignoring case.", method="by_title")

    def by_status(self, rows: PullQuerySet, name: str, words: list[str]) -> PullQuerySet:
        """The state of the thread, which mirrors the pull's, has the index."""
        mirrored = sorted({MIRROR[PullStatus(word)].value for word in words})
        return rows.filter(status__in=sorted({*words}), thread__status__in=mirrored)

    def by_title(self, rows: PullQuerySet, name: str, text: str) -> PullQuerySet:
        return rows.filter(holds("thread__title", text))
