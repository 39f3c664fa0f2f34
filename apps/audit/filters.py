"""The filters of the audit log."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.exceptions import ValidationError

from apps.accounts.filters import PersonFilter
from apps.accounts.models import User
from apps.core.filters import (
    PastFilter,
    StrictFilterSet,
    StrictTextFormField,
    TextFilter,
    WordsFilter,
)
from apps.core.requests import network
from apps.events.audit import AuditQuerySet
from apps.events.kinds import AUDITED
from apps.repos.models import Repo
from apps.teams.models import Team

TARGET_FORMS = (
    "user:<username>, team:<team_slug>, repo:teams/<team>/<repo>, repo:users/<user>/<repo>"
)
COLUMNS = {"user": "person_id", "team": "team_id", "repo": "repo_id"}


class TargetFormField(StrictTextFormField):
    """One of `TARGET_FORMS`."""

    def clean(self, value: Any) -> Any:
        text: str = super().clean(value)
        form, _, name = text.partition(":")
        if text and not (form in COLUMNS and name):
            raise ValidationError(f"Must be one of {TARGET_FORMS}.")
        return text


class TargetFilter(TextFilter):
    field_class = TargetFormField


class AddressFormField(StrictTextFormField):
    """An IP address. Of an IPv6 address, its /64 is meant, with or without this suffix."""

    def clean(self, value: Any) -> Any:
        text: str = super().clean(value)
        address = network(text.removesuffix("/64"))
        if text and address is None:
            raise ValidationError("Must be an IP address.")
        return address or ""


class AddressFilter(TextFilter):
    field_class = AddressFormField


class AuditFilterSet(StrictFilterSet):
    kind = WordsFilter(AUDITED, help_text="Only entries of these kinds.")
    actor = PersonFilter("Entries of what this person did.", lambda rows, user, _: of(rows, user))
    target = TargetFilter(
        f"Entries about an account, a team or a repository: {TARGET_FORMS}.", method="by_target"
    )
    address = AddressFilter(
        "Entries from this IP address. Of an IPv6 address, its /64 is meant.", method="by_address"
    )
    since = PastFilter("Entries from this time on.", method="by_time")
    until = PastFilter("Entries before this time.", method="by_time")

    def by_target(self, rows: AuditQuerySet, name: str, text: str) -> AuditQuerySet:
        """For a name that nobody has, the list is empty."""
        if not text:
            return rows
        form, _, target = text.partition(":")
        pk = target_id(form, target.lower())
        return rows.none() if pk is None else rows.filter((COLUMNS[form], pk))

    def by_address(self, rows: AuditQuerySet, name: str, address: str) -> AuditQuerySet:
        return rows.filter(address=address) if address else rows

    def by_time(self, rows: AuditQuerySet, name: str, time: dt.datetime | None) -> AuditQuerySet:
        if time is None:
            return rows
        return rows.since(time) if name == "since" else rows.until(time)


def of(rows: AuditQuerySet, user: User) -> AuditQuerySet:
    return rows.filter(actor=user)


def target_id(form: str, name: str) -> int | None:
    """The id of the account, team or repository with this name in lower case; one query.

    It checks no access: the caller may read all entries that the filter can find.
    """
    row: Any
    if form == "user":
        row = User.objects.filter(username_key=name).only("pk").first()
    elif form == "team":
        row = Team.objects.filter(slug=name).only("pk").first()
    else:
        row = Repo.objects.by_path([name]).get(name)
    return None if row is None else row.pk
