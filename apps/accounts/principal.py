"""Who calls: a person, or nobody, and the credential that they came with."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Protocol

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.errors import Forbidden, Unauthenticated


class Credential(Protocol):
    """What somebody has come with, and what is asked again while a stream is open."""

    @property
    def expires_at(self) -> dt.datetime | None:
        """When it ends by itself; None where only asking again tells."""
        ...

    def holder(self) -> User | None:
        """Its person, read anew; None when it has ended, or their account is closed."""
        ...


@dataclass(frozen=True)
class Principal:
    """A person with what their credential allows; without a credential, all that they may do.

    `ceiling` bounds the level that they have anywhere, `read_only` keeps them from changes, also
    of what they wrote themselves: a ceiling of READ would still let them reply and edit.
    `apps/core/access.py` says what the members are that the lower apps ask as well.
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
        """Whether it has the power of the site's staff, which a lowered credential has not."""
        full = self.ceiling is Level.OWNER and not self.read_only
        return full and self.is_signed_in and self.user.is_staff

    @property
    def expires_at(self) -> dt.datetime | None:
        return self.credential.expires_at if self.credential else None

    def check_staff(self) -> None:
        if not self.is_staff:
            raise Forbidden("staff_required", "Only staff may do this.")

    def check_self_or_staff(self, person_id: int, what: str) -> None:
        """403 `staff_required` for `what` is somebody else's, unless staff asks; 401 for nobody."""
        if self.user.pk != person_id and not self.is_staff:
            raise Forbidden("staff_required", f"Only staff may manage the {what} of somebody else.")

    def check_may_change(self) -> None:
        """401 for nobody; 403 `role_required` for a credential that only reads."""
        if self.user.is_active and self.read_only:
            raise Forbidden("role_required", "This credential is read-only.")

    def bounded(self, level: Level) -> Level:
        """A level of the person, as far as the credential reaches."""
        return min(level, self.ceiling)

    def renewed(self) -> Principal | None:
        """The same, read anew; None when the credential has ended or the account is closed."""
        if self.credential is not None:
            person = self.credential.holder()
        else:
            person = self.person and User.objects.filter(pk=self.person.pk, is_active=True).first()
        return None if person is None else replace(self, person=person)


ANONYMOUS = Principal()


def inactive_user() -> Unauthenticated:
    """401 for a deactivated account."""
    return Unauthenticated("inactive_user", "This account has been deactivated.")
