"""Access control: levels, the caller, and access to one resource. `HasLevel` checks it in DRF."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Protocol, Self

from rest_framework.permissions import BasePermission

from apps.core.errors import Forbidden


class Level(IntEnum):
    """Levels of access to a team, a user's space or a repository, lowest first.

    An operation declares the level that it requires. Two levels are requirements only: `PUBLIC` (no
    sign-in) and `STAFF`. `NONE` as a requirement means any signed-in caller.
    """

    PUBLIC = -1
    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    OWNER = 4
    STAFF = 5


class Permission(StrEnum):
    """The permission of a token: the most that it may do where its person may. Lowest first."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @staticmethod
    def for_level(level: Level) -> Permission:
        """The permission that a token needs for a requirement of this level."""
        if level <= Level.READ:
            return Permission.READ
        return Permission.WRITE if level is Level.WRITE else Permission.ADMIN

    @property
    def ceiling(self) -> Level:
        """The highest level that a token with this permission has anywhere."""
        return CEILINGS[self]

    def includes(self, needed: Permission) -> bool:
        return self.ceiling >= needed.ceiling


CEILINGS = {
    Permission.READ: Level.READ,
    Permission.WRITE: Level.WRITE,
    Permission.ADMIN: Level.OWNER,
}


class Person(Protocol):
    """The fields of a user that lower apps need."""

    pk: int
    username: str
    username_key: str
    is_staff: bool


class Principal(Protocol):
    """The caller with a credential; the class is in `apps.accounts.principal`."""

    @property
    def user(self) -> Person:
        """The user; 401 without one, and for a deactivated account."""

    @property
    def person_id(self) -> int | None:
        """Id of the user whose roles count; None if no roles do."""

    @property
    def is_signed_in(self) -> bool:
        """Whether there is a user with an active account."""

    @property
    def permission(self) -> Permission:
        """The permission of the credential."""

    @property
    def repo_ids(self) -> frozenset[int] | None:
        """Ids of the repositories to which the credential is limited; None if it is not limited."""

    @property
    def is_limited(self) -> bool:
        """Whether the credential is limited to repositories."""

    @property
    def unlimited(self) -> Self:
        """The same user without the limits of the credential, to decide how to refuse."""

    @property
    def is_of_staff(self) -> bool:
        """Whether the user is staff, whatever the credential allows."""

    @property
    def sees_all(self) -> bool:
        """Whether it may read everything on the site."""

    @property
    def is_staff(self) -> bool:
        """Whether it may do whatever staff may."""

    @property
    def lacks_second_factor(self) -> bool:
        """Whether memberships of teams that require a second factor do not count."""

    def check_signed_in(self) -> None:
        """401 without a user, and for a deactivated account."""

    def covers(self, repo_id: int) -> bool:
        """Whether the credential is valid for this repository."""

    @property
    def expires_at(self) -> dt.datetime | None:
        """Time of the credential's expiry; None if it never expires."""

    def check_staff(self) -> None:
        """403 `staff_required` unless it is staff."""

    def check_permission(self, needed: Permission, *, is_covered: bool | None = None) -> None:
        """401 without a user; 403 `token_scope` if the credential does not allow this."""

    def renewed(self) -> Self | None:
        """The principal, reloaded from the database; None if the credential is no longer valid."""


@dataclass(frozen=True)
class Access(ABC):
    """A caller's access to one resource. Only functions such as `open_team` grant it.

    `granted` is the level of the person, of which the credential may allow less: `level`.
    """

    principal: Principal
    granted: Level

    @property
    @abstractmethod
    def name(self) -> str:
        """The resource, as refusals name it."""

    @property
    @abstractmethod
    def api_path(self) -> str:
        """Current path of the resource, below the API's prefix."""

    @property
    def is_covered(self) -> bool:
        """Whether the credential is valid for this resource."""
        return not self.principal.is_limited

    @property
    def level(self) -> Level:
        """The caller's level of access with this credential."""
        ceiling = self.principal.permission.ceiling if self.is_covered else Level.NONE
        return min(self.granted, ceiling)

    @property
    def moved(self) -> bool:
        """Whether the request named the resource by a former slug."""
        return False

    def require(self, required: Level) -> None:
        """403 `role_required` below this level, 403 `forbidden` without any access, 403
        `token_scope` if the person has this level and the credential does not allow it.

        Nothing is required with `NONE`: callers check the level, or the permission, afterwards.
        """
        if required is Level.NONE:
            return
        if self.granted >= required:
            self.check_permission(Permission.for_level(required))
            return
        if self.granted is Level.NONE or not self.is_covered:
            # The text does not name the resource: a former slug would reveal the current one.
            raise Forbidden("forbidden", "You have no access to this.")
        raise Forbidden(
            "role_required",
            f"This needs {required.name.lower()} access to {self.name}; "
            f"you have {self.granted.name.lower()}.",
        )

    def check_permission(self, needed: Permission) -> None:
        """403 `token_scope` if the credential does not have this permission here."""
        if not (self.is_covered and self.principal.permission.includes(needed)):
            self.principal.check_permission(needed, is_covered=self.is_covered)


class HasLevel(BasePermission):
    """Requires the level that the operation declares, and the permission that a token needs for it,
    with our errors instead of those of DRF.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        required: Level = view.operation.level
        if required is Level.STAFF:
            view.principal.check_staff()
        elif required > Level.NONE:
            view.access.require(required)
        if required is not Level.PUBLIC:
            needed = view.operation.token_permission(request.method)
            view.principal.check_permission(needed, is_covered=self.is_covered(view))
        return True

    def is_covered(self, view: Any) -> bool:
        """Whether the caller's credential is valid for the resource of the path."""
        access: Access | None = getattr(view, "access", None)
        if access is None:
            return view.operation.takes_limited or not view.principal.is_limited
        return access.is_covered
