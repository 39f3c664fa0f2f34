"""Access levels: what a person may do at a place, as one ordered value (architecture.md §6)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from apps.core.errors import Forbidden

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from apps.accounts.models import User


class Level(IntEnum):
    """The caller's level on a place, lowest first; an operation declares the least it needs.

    `PUBLIC` and `STAFF` are needs only: no sign-in at all, and a member of the site's staff.
    `NONE` as a need means: any signed-in caller.
    """

    PUBLIC = -1
    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    OWNER = 4
    STAFF = 5


class Place(Protocol):
    """The team, user or repository in a path, whose access level decides (architecture.md §2)."""

    def access(self, user: User | AnonymousUser) -> Level:
        """The level of this person here."""
        ...

    def check_open(self, user: User, *, writing: bool) -> None:
        """Raise `Forbidden` when the place is closed to this person whatever their level."""
        ...

    def check_writable(self) -> None:
        """Raise `Conflict` when nobody may change the place now."""
        ...


def check_level(
    place: Place | None, caller: User, needed: Level, *, known: Level | None = None
) -> Level:
    """The caller's level on the place, if it is the needed one or above.

    `known`: what it is, from a door that has just found out. Raises `Forbidden` with the code of
    behaviour.md §10. Where no level on the place is needed none is looked up, and the answer is
    `NONE`.
    """
    if needed is Level.STAFF:
        if not caller.is_staff:
            raise Forbidden("staff_required", "Only staff may do this.")
        return Level.NONE
    if place is None or needed <= Level.NONE:
        return Level.NONE
    level = place.access(caller) if known is None else known
    if level >= needed:
        return level
    if level is Level.NONE:
        # Unnamed: by a former slug somebody would learn today's.
        raise Forbidden("forbidden", "You have no access to what is here.")
    raise Forbidden(
        "role_required",
        f"This needs {needed.name.lower()} access to {place}; you have {level.name.lower()}.",
    )
