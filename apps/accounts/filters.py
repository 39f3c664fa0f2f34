"""The filters of the lists of tokens, people and invites."""

from __future__ import annotations

from apps.accounts.models import (
    ApiTokenQuerySet,
    InviteQuerySet,
    InviteStatus,
    UserQuerySet,
)
from apps.accounts.rules import ORDERINGS, SORTS
from apps.core.filters import StrictFilterSet, TextFilter, WordFilter
from apps.core.search import is_called


class TokenFilterSet(StrictFilterSet):
    """`username`, which says whose tokens are listed, is no filter: it asks for a permission."""

    name = TextFilter("by_name", "Exactly this name, ignoring case.")
    ordering = WordFilter(
        ORDERINGS, method="in_order", help_text="Newest first unless told otherwise."
    )

    def by_name(self, rows: ApiTokenQuerySet, name: str, text: str) -> ApiTokenQuerySet:
        return rows.filter(is_called("name", text))

    def in_order(self, rows: ApiTokenQuerySet, name: str, ordering: str) -> ApiTokenQuerySet:
        return rows.in_order(ordering)


class UserFilterSet(StrictFilterSet):
    search = TextFilter("by_text", "Part of a username or display name, ignoring case.")

    def by_text(self, rows: UserQuerySet, name: str, text: str) -> UserQuerySet:
        return rows.search(text)


class InviteFilterSet(StrictFilterSet):
    search = TextFilter("by_text", "Part of the address, or of a name of who accepted; the uuid.")
    status = WordFilter(InviteStatus, method="by_status")
    sort = WordFilter(SORTS, method="in_order", help_text="Newest first unless told otherwise.")

    def by_text(self, rows: InviteQuerySet, name: str, text: str) -> InviteQuerySet:
        return rows.search(text)

    def by_status(self, rows: InviteQuerySet, name: str, status: str) -> InviteQuerySet:
        return rows.with_status(status)

    def in_order(self, rows: InviteQuerySet, name: str, sort: str) -> InviteQuerySet:
        return rows.in_order(sort)
