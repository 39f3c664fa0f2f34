"""Writing an event: the last line of every action, inside its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.core.access import Person
from apps.events import wake
from apps.events.kinds import STRENGTH, Kind, PingKind
from apps.events.models import Event, Ping, PingMail

# One PostgreSQL advisory lock for all writers of events: "ghevents" as a 64-bit number.
ORDER_LOCK = int.from_bytes(b"ghevents")
AT_ONCE = 500
"""Events that one statement writes."""


@dataclass(frozen=True)
class Keys:
    """Where an event belongs, as ids; see the columns of `Event`."""

    team: int | None = None
    repo: int | None = None
    thread: int | None = None
    number: int | None = None
    is_pull: bool = False
    private_to: int | None = None
    site: bool = False


@dataclass(frozen=True)
class Target:
    """What an event is about: `{kind, number|uuid|slug}`, and its path in both address spaces.

    The suffixes follow the address of the repository, or of the team where there is none;
    None where the target has no page or no resource.
    """

    kind: str
    ident: dict[str, Any] = field(default_factory=dict)
    web: str | None = None
    api: str | None = None


class Recorded(Protocol):
    """What a model offers so that events can be about it."""

    def event_keys(self) -> Keys: ...

    def event_target(self) -> Target: ...

    def event_title(self) -> str | None: ...


class Recipient(Protocol):
    """What a ping needs to know of a person."""

    @property
    def pk(self) -> int: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def wants_mail(self) -> bool: ...


Pinged: TypeAlias = tuple[Recipient, PingKind]
"""A person whom an event should ping, and why. Whoever says so has asked who may read it."""


@dataclass(frozen=True)
class Change:
    """What one event tells; see `record`."""

    kind: Kind
    actor: Person | None
    about: Recorded
    data: dict[str, Any] = field(default_factory=dict)


def record(
    kind: Kind,
    *,
    actor: Person | None,
    about: Recorded,
    data: dict[str, Any] | None = None,
    pings: Iterable[Pinged] = (),
) -> None:
    """Write the event of a change. Call it last: it holds the order lock until the commit.

    `data` is shown to every reader of the event: no secret, no e-mail address. `actor` None means
    that nobody known caused it (a repair). It pings each of `pings` once, for the strongest of
    their reasons; neither the actor nor inactive people.
    """
    _take_order_lock()
    event = _row(Change(kind, actor, about, data or {}))
    event.save(force_insert=True)
    _ping(event, pings)
    wake.notify_on_commit()


def record_all(changes: Sequence[Change]) -> None:
    """Write the events of many changes in this order, in a few statements; else as `record`."""
    _take_order_lock()
    Event.objects.bulk_create(map(_row, changes), batch_size=AT_ONCE)
    wake.notify_on_commit()


def _ping(event: Event, pings: Iterable[Pinged]) -> None:
    """Write the pings of an event, and the jobs of the mail to those who want it: two statements,
    none for nobody.
    """
    found: dict[int, Pinged] = {}
    for person, kind in sorted(pings, key=lambda one: STRENGTH[one[1]]):
        if person.is_active and person.pk != event.actor_id:
            found.setdefault(person.pk, (person, kind))
    if found:
        Ping.objects.bulk_create(
            Ping(event=event, user_id=pk, kind=kind) for pk, (_, kind) in found.items()
        )
    told = [pk for pk, (person, _) in found.items() if settings.SENDS_MAIL and person.wants_mail]
    if told:
        thread, before = event.thread_id or 0, event.pk - 1
        PingMail.objects.bulk_create(
            [PingMail(user_id=pk, thread_id=thread, newest=event.pk, told=before) for pk in told],
            update_conflicts=True,
            unique_fields=["user", "thread_id"],
            update_fields=["newest"],
        )


def _row(change: Change) -> Event:
    keys, target = change.about.event_keys(), change.about.event_target()
    return Event(
        kind=change.kind,
        actor_id=None if change.actor is None else change.actor.pk,
        team_id=keys.team,
        repo_id=keys.repo,
        thread_id=keys.thread,
        number=keys.number,
        is_pull=keys.is_pull,
        private_to=keys.private_to,
        site=1 if keys.site else None,
        target={"kind": target.kind, **target.ident},
        title=change.about.event_title(),
        web_suffix=target.web,
        api_suffix=target.api,
        data=change.data,
        created_at=timezone.now(),
    )


def _take_order_lock() -> None:
    """Ids must become visible in order; SQLite's `BEGIN IMMEDIATE` gives that by itself."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ORDER_LOCK])
