"""The filters of the lists of tokens, people and invites."""

from __future__ import annotations

from apps.accounts.models import ApiTokenQuerySet, InviteQuerySet, InviteStatus
from apps.accounts.rules import ORDERINGS, SORTS
from apps.core.filters import OrderingFilter, SearchFilter, StrictFilterSet, TextFilter, WordFilter
from apps.core.search import is_called


class TokenFilterSet(StrictFilterSet):
    """`username`, which says whose tokens are listed, is no filter: it asks for a permission."""

    name = TextFilter("Exactly this name, ignoring case.", method="by_name")
    ordering = OrderingFilter(ORDERINGS, help_text="Newest first unless told otherwise.")

    def by_name(self, rows: ApiTokenQuerySet, name: str, text: str) -> ApiTokenQuerySet:
        return rows.filter(is_called("name", text))


class UserFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a username or display name, ignoring case.")


class InviteFilterSet(StrictFilterSet):
    search = SearchFilter("Part of the address, or of a name of who accepted; the uuid.")
    status = WordFilter(InviteStatus, method="by_status")
    sort = OrderingFilter(SORTS, help_text="Newest first unless told otherwise.")

    def by_status(self, rows: InviteQuerySet, name: str, status: str) -> InviteQuerySet:
        return rows.with_status(status)
