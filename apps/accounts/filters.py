"""The filters of the lists of tokens, people and invites."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from apps.accounts.models import (
    ApiTokenQuerySet,
    InviteQuerySet,
    InviteStatus,
    User,
    UserQuerySet,
)
from apps.accounts.principal import Principal
from apps.accounts.rules import ORDERINGS, SORTS
from apps.core.filters import (
    FlagFilter,
    OrderingFilter,
    PastFilter,
    SearchFilter,
    StrictFilterSet,
    TextFilter,
    WordFilter,
)
from apps.core.search import is_called


class PersonFilter(TextFilter):
    """Filters a queryset by a person: a username, ignoring case, or `self`.

    For a username that nobody has, the list is empty.
    """

    parent: Any

    def __init__(self, help_text: str, select: Callable[[Any, User, Principal], Any]) -> None:
        """`select` returns the filtered rows. It gets the rows, the person and the caller."""
        self.select = select
        super().__init__(f"{help_text} A username, ignoring case, or `self`.")

    def filter(self, qs: Any, value: str) -> Any:
        if not value:
            return qs
        caller, key = self.parent.request.auth, value.lower()
        if key == "self":
            return self.select(qs, caller.user, caller)
        person = User.objects.filter(username_key=key).first()
        return qs.none() if person is None else self.select(qs, person, caller)


class UsernameFilter(TextFilter):
    """Filters by a column of username keys, for lists too short to need an index."""

    parent: Any

    def __init__(self, help_text: str, column: str) -> None:
        self.column = column
        super().__init__(f"{help_text} A username, ignoring case, or `self`.")

    def filter(self, qs: Any, value: str) -> Any:
        if not value:
            return qs
        key = value.lower()
        own = self.parent.request.auth.user.username_key if key == "self" else key
        return qs.filter((self.column, own))


class TokenFilterSet(StrictFilterSet):
    """The parameter `username` is not a filter: it needs a permission, and the view reads it."""

    name = TextFilter("Exactly this name, ignoring case.", method="by_name")
    ordering = OrderingFilter(ORDERINGS, help_text="Newest first unless told otherwise.")

    def by_name(self, rows: ApiTokenQuerySet, name: str, text: str) -> ApiTokenQuerySet:
        return rows.filter(is_called("name", text))


class UserFilterSet(StrictFilterSet):
    request: Any

    search = SearchFilter("Part of a username or display name, ignoring case.")
    is_active = FlagFilter("Accounts that are active, or those that are deactivated.")
    is_staff = FlagFilter("Staff, or all others.")
    is_bot = FlagFilter("Bots of teams, or people.")
    last_seen_before = PastFilter("Not seen since; for staff.", method="by_last_seen")
    last_seen_after = PastFilter("Seen since; for staff.", method="by_last_seen")

    def by_last_seen(self, rows: UserQuerySet, name: str, time: dt.datetime | None) -> UserQuerySet:
        """403 `staff_required`: others may not know when a person was seen."""
        self.request.auth.check_staff()
        if time is None:
            return rows
        return rows.seen_since(time) if name == "last_seen_after" else rows.not_seen_since(time)


class InviteFilterSet(StrictFilterSet):
    search = SearchFilter(
        "Part of the address, or of a name of the person who accepted; or the uuid."
    )
    status = WordFilter(InviteStatus, method="by_status")
    sort = OrderingFilter(SORTS, help_text="Newest first unless told otherwise.")

    def by_status(self, rows: InviteQuerySet, name: str, status: str) -> InviteQuerySet:
        return rows.with_status(status)
