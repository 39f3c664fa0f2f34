"""What a caller may do: levels, who calls, and the access that one holds once it was granted."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, Self

from rest_framework.permissions import BasePermission

from apps.core.errors import Forbidden


class Level(IntEnum):
    """How far somebody's access to a team, a user's space or a repository goes, lowest first.

    An operation declares the least it needs. `PUBLIC` and `STAFF` are needs only: no sign-in at
    all, and a member of the site's staff. `NONE` as a need means: any signed-in caller.
    """

    PUBLIC = -1
    NONE = 0
    READ = 1
    WRITE = 2
    ADMIN = 3
    OWNER = 4
    STAFF = 5


class Person(Protocol):
    """What the lower apps need to know of a user."""

    @property
    def pk(self) -> int: ...
    @property
    def username(self) -> str: ...
    @property
    def username_key(self) -> str: ...
    @property
    def is_staff(self) -> bool: ...


class Principal(Protocol):
    """Who calls, and by which credential; `apps.accounts.principal` has the class."""

    @property
    def user(self) -> Person:
        """The person; 401 for nobody and for a deactivated account."""
        ...

    @property
    def person_id(self) -> int | None:
        """Whose roles count; None for nobody's."""
        ...

    @property
    def is_signed_in(self) -> bool:
        """Whether there is a person, whose account is open."""
        ...

    @property
    def reads(self) -> bool:
        """Whether its credential lets it read at all."""
        ...

    @property
    def sees_all(self) -> bool:
        """Whether it may read everything on the site."""
        ...

    @property
    def is_staff(self) -> bool:
        """Whether it has the power of the site's staff."""
        ...

    @property
    def expires_at(self) -> dt.datetime | None:
        """When the credential ends; None when it does not."""
        ...

    def check_staff(self) -> None:
        """403 `staff_required` for everybody else."""
        ...

    def check_may_change(self) -> None:
        """401 for nobody; 403 `role_required` for a credential that only reads."""
        ...

    def renewed(self) -> Self | None:
        """The same, read anew from the database; None when the credential opens nothing now."""
        ...


@dataclass(frozen=True)
class Access(ABC):
    """Who, what, and how far: granted by `open_team`, `open_repo` and their like, nowhere else."""

    principal: Principal
    level: Level

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is access to, as refusals call it."""

    @property
    @abstractmethod
    def api_path(self) -> str:
        """Where the resource is today, below the API's prefix."""

    @property
    def moved(self) -> bool:
        """Whether it was asked for by a former slug."""
        return False

    def require(self, needed: Level) -> None:
        """403 `role_required` below this level, 403 `forbidden` without any access."""
        if self.level >= needed:
            return
        if self.level is Level.NONE:
            # Unnamed: by a former slug somebody would learn today's.
            raise Forbidden("forbidden", "You have no access to this.")
        raise Forbidden(
            "role_required",
            f"This needs {needed.name.lower()} access to {self.name}; "
            f"you have {self.level.name.lower()}.",
        )


class HasLevel(BasePermission):
    """The caller holds the declared level on the resource of the path, or is staff.

    Refuses by itself with the code and the text of our errors, which DRF would replace.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        needed: Level = view.operation.level
        if needed is Level.STAFF:
            view.principal.check_staff()
        elif needed > Level.NONE:
            view.access.require(needed)
        return True
