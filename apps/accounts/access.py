"""Access to a person's own space, and what all access to resources has in common."""

from __future__ import annotations

from dataclasses import dataclass

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Access, Level
from apps.core.errors import Forbidden
from apps.core.lookup import get_or_missing


@dataclass(frozen=True)
class ResourceAccess(Access):
    """What a principal may do with one resource. Actions take it as `by`, and ask it first."""

    principal: Principal

    @property
    def user(self) -> User:
        """Who acts; 401 for nobody and for a deactivated account."""
        return self.principal.user

    def check_open(self, *, writing: bool) -> None:
        """403 where the resource is closed to the caller whatever their level."""

    def check_writable(self) -> None:
        """409 where nobody may change the resource now."""

    def require_change(self, needed: Level) -> None:
        """The level, a credential that may change things, and a resource that takes changes.

        Errors: 401, 403 as `require`, 409 as `check_writable`.
        """
        self.principal.check_may_change()
        self.require(needed)
        self.check_writable()

    def require_author_or(self, needed: Level, author_id: int, what: str) -> None:
        """This level, or to be the author of `what`; 403 `role_required`."""
        if self.level >= needed or author_id == self.user.pk:
            return
        raise Forbidden(
            "role_required",
            f"This needs {needed.name.lower()} access to {self.name}, or to have opened the "
            f"{what}; you have {self.level.name.lower()}.",
        )


@dataclass(frozen=True)
class UserAccess(ResourceAccess):
    """Access to the space of a person, which holds their repositories."""

    owner: User

    @property
    def name(self) -> str:
        return self.owner.path

    @property
    def api_path(self) -> str:
        return f"/{self.owner.path}"


def access_to_user(principal: Principal, owner: User) -> UserAccess:
    """Their own space and, for staff, everybody's; nobody else has access to it."""
    owns = principal.sees_all or principal.person_id == owner.pk
    level = principal.bounded(Level.OWNER if owns else Level.NONE)
    return UserAccess(principal, level, owner)


def open_user(principal: Principal, username: str, *, needs: Level = Level.READ) -> UserAccess:
    """Access to the space of the person of this name, in lower case; 404, 403."""
    access = access_to_user(principal, get_or_missing(User, "user", username_key=username))
    access.require(needs)
    return access
