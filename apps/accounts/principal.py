"""The caller of a request: a person or nobody, and the credential that they sent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, cast

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.core.access import Permission
from apps.core.errors import Forbidden, Unauthenticated
from apps.core.statements import Parameter, Statement


class Credential(Protocol):
    """A token or session. Open streams check it again and again."""

    @property
    def expires_at(self) -> dt.datetime | None:
        """When it expires; None if it does not expire or the time is not known."""
        ...

    def holder(self) -> User | None:
        """Its person, read from the database; None if it has ended or the account is closed."""
        ...


@dataclass(frozen=True)
class Principal:
    """A person and the limits of their credential: its permission, and the repositories to which it
    is limited. Without a credential there are no limits. `apps/core/access.py` documents the
    members that lower apps use.
    """

    person: User | None = None
    credential: Credential | None = None
    permission: Permission = Permission.ADMIN
    repo_ids: frozenset[int] | None = None

    @property
    def user(self) -> User:
        self.check_signed_in()
        return cast("User", self.person)

    @property
    def person_id(self) -> int | None:
        return None if self.person is None else self.person.pk

    @property
    def is_signed_in(self) -> bool:
        return self.person is not None and self.person.is_active

    @property
    def is_limited(self) -> bool:
        return self.repo_ids is not None

    @property
    def unlimited(self) -> Principal:
        """The same person with all of their rights."""
        return Principal(self.person, self.credential)

    @property
    def is_of_staff(self) -> bool:
        return self.person is not None and self.person.is_staff

    @property
    def sees_all(self) -> bool:
        return self.is_of_staff and not self.is_limited

    @property
    def is_staff(self) -> bool:
        """Whether it has the rights of staff, which need all rights of the person."""
        is_full = self.permission is Permission.ADMIN and not self.is_limited
        return is_full and self.is_signed_in and self.is_of_staff

    @property
    def lacks_second_factor(self) -> bool:
        """Whether memberships of teams that require a second factor do not count: those of people
        who have none, whatever their credential. Bots sign in nowhere, and staff is above teams.
        """
        person = self.person
        return not (person is None or person.has_second_factor or person.is_bot or person.is_staff)

    @property
    def expires_at(self) -> dt.datetime | None:
        return self.credential.expires_at if self.credential else None

    def check_signed_in(self) -> None:
        if self.person is None:
            raise Unauthenticated("not_authenticated", "Sign in first.")
        if not self.person.is_active:
            raise inactive_user()

    def check_person(self) -> None:
        """403 `person_required` for a bot."""
        if self.user.is_bot:
            raise Forbidden("person_required", "Only a person may do this, and no bot.")

    def covers(self, repo_id: int) -> bool:
        return self.repo_ids is None or repo_id in self.repo_ids

    def check_permission(self, needed: Permission, *, is_covered: bool | None = None) -> None:
        """Check the credential after the rights of the person: 401 if nobody is signed in; 403
        `token_scope` if the credential has a lower permission, or is not valid for the resource.

        `is_covered`: whether it is valid there; by default, whether it is valid everywhere.
        """
        self.check_signed_in()
        if not (not self.is_limited if is_covered is None else is_covered):
            text = f"This needs a token with {needed} permission that is not limited to other "
            raise Forbidden("token_scope", f"{text}repositories.")
        if not self.permission.includes(needed):
            text = f"This needs a token with {needed} permission; this one has {self.permission}."
            raise Forbidden("token_scope", text)

    def check_staff(self) -> None:
        if self.is_staff:
            return
        if self.is_signed_in and self.is_of_staff:
            self.check_permission(Permission.ADMIN)
        raise Forbidden("staff_required", "Only staff may do this.")

    def check_self_or_staff(self, person_id: int, noun: str) -> None:
        """403 `staff_required` if an object belongs to another person and the caller is not staff;
        401 if nobody is signed in. `noun` names such objects in the error, in the plural.
        """
        if self.user.pk == person_id:
            return
        if not self.is_of_staff:
            raise Forbidden("staff_required", f"Only staff may manage the {noun} of somebody else.")
        self.check_staff()

    def renewed(self) -> Principal | None:
        """The same principal with its person read from the database; None if the credential has
        ended or the account is closed.
        """
        if self.credential is not None:
            person = self.credential.holder()
        else:
            person = self.person and User.objects.filter(pk=self.person.pk, is_active=True).first()
        return None if person is None else replace(self, person=person)


ANONYMOUS = Principal()


Rows = Callable[[Principal], QuerySet[Any, Any]]


def statement_for(principal: Principal, rows: Rows) -> Statement:
    """`rows(principal)`, compiled once for all people with the same rights. Its parameter `person`
    is the id of the person; without a person, there is no such parameter.

    The statement of a credential that is limited to repositories contains their ids. It is not
    cached, because there would be one for each list.
    """
    is_staff = principal.user.is_staff if principal.is_signed_in else None
    statement = _statement.__wrapped__ if principal.is_limited else _statement
    lacks_factor = principal.lacks_second_factor
    return statement(rows, is_staff, lacks_factor, principal.permission, principal.repo_ids)


@cache
def _statement(
    rows: Rows,
    is_staff: bool | None,
    lacks_factor: bool,
    permission: Permission,
    repo_ids: frozenset[int] | None,
) -> Statement:
    values: dict[str, Any] = {"pk": Parameter("person"), "has_second_factor": not lacks_factor}
    person = None if is_staff is None else User(is_staff=is_staff, **values)
    return Statement(lambda: rows(Principal(person, None, permission, repo_ids)))


def first_rows(principal: Principal, rows: Rows, most: int) -> list[Any]:
    """The first of `rows(principal)`, at most `most`, of a person, by `statement_for`."""
    return statement_for(principal, rows).page(0, most, person=principal.user.pk)


def inactive_user() -> Unauthenticated:
    """401 for a deactivated account."""
    return Unauthenticated("inactive_user", "This account has been deactivated.")
