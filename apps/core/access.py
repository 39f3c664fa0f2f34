"""Access control: levels, the caller, and access to one resource. `HasLevel` checks it in DRF."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
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
    def reads(self) -> bool:
        """Whether the credential allows any reading."""

    @property
    def sees_all(self) -> bool:
        """Whether it may read everything on the site."""

    @property
    def is_staff(self) -> bool:
        """Whether it may do whatever staff may."""

    @property
    def expires_at(self) -> dt.datetime | None:
        """Time of the credential's expiry; None if it never expires."""

    def check_staff(self) -> None:
        """403 `staff_required` unless it is staff."""

    def check_may_change(self) -> None:
        """401 without a user; 403 `role_required` for a read-only credential."""

    def renewed(self) -> Self | None:
        """The principal, reloaded from the database; None if the credential is no longer valid."""


@dataclass(frozen=True)
class Access(ABC):
    """A caller's level of access to one resource. Only functions such as `open_team` grant it."""

    principal: Principal
    level: Level

    @property
    @abstractmethod
    def name(self) -> str:
        """The resource, as refusals name it."""

    @property
    @abstractmethod
    def api_path(self) -> str:
        """Current path of the resource, below the API's prefix."""

    @property
    def moved(self) -> bool:
        """Whether the request named the resource by a former slug."""
        return False

    def require(self, required: Level) -> None:
        """403 `role_required` below this level, 403 `forbidden` without any access."""
        if self.level >= required:
            return
        if self.level is Level.NONE:
            # The text does not name the resource: a former slug would reveal the current one.
            raise Forbidden("forbidden", "You have no access to this.")
        raise Forbidden(
            "role_required",
            f"This needs {required.name.lower()} access to {self.name}; "
            f"you have {self.level.name.lower()}.",
        )


class HasLevel(BasePermission):
    """Requires the level that the operation declares, with our errors instead of those of DRF."""

    def has_permission(self, request: Any, view: Any) -> bool:
        required: Level = view.operation.level
        if required is Level.STAFF:
            view.principal.check_staff()
        elif required > Level.NONE:
            view.access.require(required)
        return True
