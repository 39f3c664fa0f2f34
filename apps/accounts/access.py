"""Access to a person's own space, and the base class of all access to resources."""

from __future__ import annotations

from dataclasses import dataclass

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.core.access import Access, Level, Permission
from apps.core.errors import Forbidden
from apps.core.lookup import get_or_missing


@dataclass(frozen=True)
class ResourceAccess(Access):
    """The access of a principal to one resource. Actions take it as `access` and check it first."""

    principal: Principal

    @property
    def user(self) -> User:
        """The person who acts; 401 if nobody is signed in or the account is deactivated."""
        return self.principal.user

    def check_open(self, *, writing: bool) -> None:
        """403 if the resource is closed to the caller at any level. Subclasses override it."""

    def check_writable(self) -> None:
        """409 if nobody may change the resource now. Subclasses override it."""

    def require_change(self, needed: Level, permission: Permission = Permission.WRITE) -> None:
        """Check the level, the permission of the credential, and that the resource is writable.

        Errors: 401, 403 as `require` and `check_permission`, 409 as `check_writable`.
        """
        self.principal.check_signed_in()
        self.require(needed)
        self.check_permission(permission)
        self.check_writable()

    def require_author_or(self, needed: Level, author_id: int, noun: str) -> None:
        """403 `role_required` for users who have neither this level nor wrote the object; 403
        `token_scope` as `require`. `noun` names the object in the error, such as "thread".
        """
        if author_id == self.user.pk:
            return
        if self.granted >= needed:
            self.check_permission(Permission.for_level(needed))
            return
        raise Forbidden(
            "role_required",
            f"This needs {needed.name.lower()} access to {self.name}, or to have opened the "
            f"{noun}; you have {self.granted.name.lower()}.",
        )


@dataclass(frozen=True)
class UserAccess(ResourceAccess):
    """Access to a person's space, which holds their repositories."""

    owner: User

    def check_open(self, *, writing: bool) -> None:
        """403 `person_required` for changes in the space of a bot, which has no repositories."""
        if writing and self.owner.is_bot:
            raise Forbidden("person_required", f"{self.owner} is a bot, and has no repositories.")

    @property
    def name(self) -> str:
        return self.owner.path

    @property
    def api_path(self) -> str:
        return f"/{self.owner.path}"


def access_to_user(principal: Principal, owner: User) -> UserAccess:
    """The owner and staff have access to a person's space; nobody else has."""
    owns = principal.is_of_staff or principal.person_id == owner.pk
    return UserAccess(principal, Level.OWNER if owns else Level.NONE, owner)


def open_user(principal: Principal, username: str, *, needs: Level = Level.READ) -> UserAccess:
    """Open a person's space. `username` is in lower case. 404 if there is none, 403."""
    owner = get_or_missing(User.objects.filter(NOT_GONE), "user", username_key=username)
    access = access_to_user(principal, owner)
    access.require(needs)
    return access
