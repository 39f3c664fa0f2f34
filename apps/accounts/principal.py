"""The caller of a request: a person or nobody, and the credential that they sent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.core.access import Level
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
    """A person and the limits of their credential. Without a credential there are no limits.

    `ceiling` is the highest level that they have anywhere. `read_only` forbids all changes: with a
    ceiling of READ alone they could still reply, and edit their own texts. `apps/core/access.py`
    documents the members that lower apps use.
    """

    person: User | None = None
    credential: Credential | None = None
    ceiling: Level = Level.OWNER
    read_only: bool = False

    @property
    def user(self) -> User:
        if self.person is None:
            raise Unauthenticated("not_authenticated", "Sign in first.")
        if not self.person.is_active:
            raise inactive_user()
        return self.person

    @property
    def person_id(self) -> int | None:
        return None if self.person is None else self.person.pk

    @property
    def is_signed_in(self) -> bool:
        return self.person is not None and self.person.is_active

    @property
    def reads(self) -> bool:
        return self.ceiling >= Level.READ

    @property
    def sees_all(self) -> bool:
        """Whether it may read everything: staff, unless the credential reads nothing."""
        return self.person is not None and self.person.is_staff and self.reads

    @property
    def is_staff(self) -> bool:
        """Whether it has the rights of staff. A limited credential has not."""
        full = self.ceiling is Level.OWNER and not self.read_only
        return full and self.is_signed_in and self.user.is_staff

    @property
    def expires_at(self) -> dt.datetime | None:
        return self.credential.expires_at if self.credential else None

    def check_staff(self) -> None:
        if not self.is_staff:
            raise Forbidden("staff_required", "Only staff may do this.")

    def check_self_or_staff(self, person_id: int, noun: str) -> None:
        """403 `staff_required` if an object belongs to another person and the caller is not staff;
        401 if nobody is signed in. `noun` names such objects in the error, in the plural.
        """
        if self.user.pk != person_id and not self.is_staff:
            raise Forbidden("staff_required", f"Only staff may manage the {noun} of somebody else.")

    def check_may_change(self) -> None:
        """401 if nobody is signed in; 403 `role_required` for a read-only credential."""
        if self.user.is_active and self.read_only:
            raise Forbidden("role_required", "This credential is read-only.")

    def bounded(self, level: Level) -> Level:
        """A level of the person, but not above the ceiling of the credential."""
        return min(level, self.ceiling)

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
    """
    is_staff = principal.user.is_staff if principal.is_signed_in else None
    return _statement(rows, is_staff, principal.ceiling, principal.read_only)


@cache
def _statement(rows: Rows, is_staff: bool | None, ceiling: Level, read_only: bool) -> Statement:
    pk: Any = Parameter("person")
    person = None if is_staff is None else User(pk=pk, is_staff=is_staff)
    return Statement(lambda: rows(Principal(person, None, ceiling, read_only)))


def first_rows(principal: Principal, rows: Rows, most: int) -> list[Any]:
    """The first of `rows(principal)`, at most `most`, of a person, by `statement_for`."""
    return statement_for(principal, rows).page(0, most, person=principal.user.pk)


def inactive_user() -> Unauthenticated:
    """401 for a deactivated account."""
    return Unauthenticated("inactive_user", "This account has been deactivated.")
