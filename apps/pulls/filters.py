"""The filters of the lists of pulls."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from apps.accounts.filters import PersonFilter, UsernameFilter
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.browse.names import decoded, path_in_query
from apps.core.filters import (
    FlagFilter,
    OrderingFilter,
    SearchFilter,
    StrictFilterSet,
    TextFilter,
    UuidFilter,
    WordsFilter,
)
from apps.core.search import title_holds
from apps.pulls import rules
from apps.pulls.models import MIRROR, PullQuerySet, PullStatus, Review
from apps.pulls.queries import awaiting_review_from
from apps.threads.models import Reply, ReplyStatus, thread_ids_of

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


def on_path(rows: QuerySet[Reply], path: bytes) -> QuerySet[Reply]:
    """The comments that were made on this file, or whose lines are in it at the current head."""
    return rows.filter(Q(anchor__path=path) | Q(anchor__current_path=path))


class CommentFilterSet(StrictFilterSet):
    """The filters of the list of a pull's comments on lines."""

    path = TextFilter(
        "Comments that were made on this file, or whose lines are in it now.", method="by_path"
    )
    path_base64 = TextFilter(
        "The same for a path that is not UTF-8, in URL-safe base64.", method="by_path_base64"
    )
    status = WordsFilter(
        ReplyStatus,
        method="by_status",
        help_text="Comments with this status; with several, comments with any of them.",
    )
    outdated = FlagFilter(
        "Whether the lines are no longer at the head of the pull.", method="by_outdated"
    )
    review_uuid = UuidFilter("Comments of this review.", "anchor__review_uuid")

    def by_path(self, rows: QuerySet[Reply], name: str, path: str) -> QuerySet[Reply]:
        request: Any = self.request
        return on_path(rows, path_in_query(request, {"path": path})) if path else rows

    def by_path_base64(self, rows: QuerySet[Reply], name: str, path: str) -> QuerySet[Reply]:
        return on_path(rows, decoded(path)) if path else rows

    def by_outdated(self, rows: QuerySet[Reply], name: str, word: str) -> QuerySet[Reply]:
        return rows.filter(anchor__outdated_reason__isnull=word == "false")

    def by_status(self, rows: QuerySet[Reply], name: str, words: list[str]) -> QuerySet[Reply]:
        """A deleted comment has none of these statuses."""
        return rows.filter(status__in=sorted({*words}), deleted_at=None)


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
