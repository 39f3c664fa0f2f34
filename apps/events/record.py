"""Recording events: the last line of every action, inside its transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from apps.core import metrics
from apps.core.access import Person
from apps.core.origins import origin
from apps.events import wake
from apps.events.audit import AuditEntry
from apps.events.kinds import ACTIVITY, NOT_AUDITED, PRIORITY, AuditKind, Kind, PingKind
from apps.events.models import Event, Ping, PingMail

# The PostgreSQL advisory lock that all writers of events take: "ghevents" as a 64-bit integer.
ORDER_LOCK = int.from_bytes(b"ghevents")
BATCH_SIZE = 500
"""Maximum number of events that one statement writes."""

NAMING = ("username", "path", "scope", "status_reporters")
"""Keys of targets and data whose values name accounts: a text, or a list of texts."""

ADD_COUNT = """
    INSERT INTO events_activitycount AS stored (actor_id, date, repo_id, kind, team_id, count)
    VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (actor_id, date, repo_id, kind) DO UPDATE SET count = stored.count + excluded.count
"""


@dataclass(frozen=True)
class Keys:
    """The ids of the team, repository and thread of an event; see the columns of `Event`."""

    team: int | None = None
    repo: int | None = None
    thread: int | None = None
    number: int | None = None
    is_pull: bool = False
    private_to: int | None = None
    site: bool = False
    person: int | None = None
    """For the audit log: the account that was changed."""
    audit_team: int | None = None
    """For the audit log: the team whose owners may read the entry, if it differs from `team`."""
    audit_repo: int | None = None
    """For the audit log: the repository of the entry, if it differs from `repo`."""


@dataclass(frozen=True)
class Target:
    """The target of an event: `{kind, number|uuid|slug}`, and its paths.

    `web` and `api` are the paths of its page and its resource, below the repository, or below the
    team if it has no repository; None without a page or a resource.
    """

    kind: str
    ident: dict[str, Any] = field(default_factory=dict)
    web: str | None = None
    api: str | None = None
    audit_ident: dict[str, Any] | None = None
    """The identifiers in the audit log, if `ident` contains a secret."""


class Recorded(Protocol):
    """A model instance that events can be about."""

    def event_keys(self) -> Keys: ...

    def event_target(self) -> Target: ...

    def event_title(self) -> str | None: ...


@dataclass(frozen=True)
class Deleted:
    """The subject of an event that deletes it: it has no page, and people who can no longer read it
    get the event by `keys`.
    """

    subject: Recorded
    keys: Keys

    def event_keys(self) -> Keys:
        return self.keys

    def event_target(self) -> Target:
        target = self.subject.event_target()
        return Target(target.kind, target.ident, audit_ident=target.audit_ident)

    def event_title(self) -> None:
        return None


class Recipient(Protocol):
    """A person who can be pinged."""

    @property
    def pk(self) -> int: ...
    @property
    def is_active(self) -> bool: ...
    @property
    def wants_mail(self) -> bool: ...


Pinged: TypeAlias = tuple[Recipient, PingKind]
"""A person to ping, and the reason. The caller has already checked read access."""


@dataclass(frozen=True)
class Change:
    """One event to record; see `record`."""

    kind: Kind
    actor: Person | None
    about: Recorded
    data: dict[str, Any] = field(default_factory=dict)
    pings: Sequence[Pinged] = ()
    audit: dict[str, Any] = field(default_factory=dict)


def record(
    kind: Kind,
    *,
    actor: Person | None,
    about: Recorded,
    data: dict[str, Any] | None = None,
    pings: Iterable[Pinged] = (),
    audit: dict[str, Any] | None = None,
) -> None:
    """Write the event of a change. Call it last: it holds the order lock until the commit.

    `data` must not contain secrets or e-mail addresses, as every reader of the event sees it.
    `actor` is None if the system made the change. Each person in `pings` is pinged once, for the
    first of their reasons in `PingKind`; the actor and inactive people are not pinged. `audit` is
    data for the audit log alone, without secrets either.
    """
    _take_order_lock()
    change = Change(kind, actor, about, data or {}, audit=audit or {})
    event = _row(change)
    event.save(force_insert=True)
    count_events([event])
    _add_entries([change])
    _ping(event, pings)
    wake.notify_on_commit()


def record_all(changes: Sequence[Change]) -> None:
    """Write the events of many changes in this order, in few statements; see `record`."""
    _take_order_lock()
    events = Event.objects.bulk_create(map(_row, changes), batch_size=BATCH_SIZE)
    count_events(events)
    _add_entries(changes)
    for event, change in zip(events, changes, strict=True):
        _ping(event, change.pings)
    wake.notify_on_commit()


def record_entry(kind: AuditKind, *, person: Person | None, data: dict[str, Any]) -> None:
    """Write an entry of the audit log that is no event. Call it last, as `record`.

    `person` is the account that somebody signs in to; None if there is no such account. It is the
    actor too, unless it is refused.
    """
    if not settings.AUDIT_DAYS:
        return
    _take_order_lock()
    is_refused = kind is AuditKind.SIGN_IN_REFUSED
    target = {"kind": "user", **({} if person is None else {"username": person.username})}
    entry = _entry(kind, None if is_refused else person, target, data)
    entry.person_id = None if person is None else person.pk
    entry.save(force_insert=True)


def _add_entries(changes: Iterable[Change]) -> None:
    """Write the entries of the audit log for these changes; one statement, or none."""
    entries = [_entry_of(change) for change in changes if change.kind not in NOT_AUDITED]
    if entries and settings.AUDIT_DAYS:
        AuditEntry.objects.bulk_create(entries, batch_size=BATCH_SIZE)


def _entry_of(change: Change) -> AuditEntry:
    keys, target = change.about.event_keys(), change.about.event_target()
    ident = target.ident if target.audit_ident is None else target.audit_ident
    data = _joined(change.data, change.audit)
    entry = _entry(change.kind, change.actor, {"kind": target.kind, **ident}, data)
    entry.person_id = keys.person
    entry.team_id = keys.team if keys.audit_team is None else keys.audit_team
    entry.repo_id = keys.repo if keys.audit_repo is None else keys.audit_repo
    return entry


def _joined(data: dict[str, Any], audit: dict[str, Any]) -> dict[str, Any]:
    """The data of an event with more of it for the audit log: `before` and `after` are joined."""
    joined = {**data, **audit}
    for name in ("before", "after"):
        if isinstance(data.get(name), dict) and isinstance(audit.get(name), dict):
            joined[name] = {**data[name], **audit[name]}
    return joined


def _entry(
    kind: Kind | AuditKind, actor: Person | None, target: dict[str, Any], data: dict[str, Any]
) -> AuditEntry:
    address, program, token = origin()
    return AuditEntry(
        kind=kind,
        actor_id=None if actor is None else actor.pk,
        address=address,
        program=program,
        token_uuid=token and token.uuid,
        token_name=token.name if token else "",
        target=target,
        data=data,
        created_at=timezone.now(),
    )


def count_events(events: Iterable[Event]) -> None:
    """Add new events to the counts of activity; one statement for each count."""
    added = Counter(
        (
            event.actor_id,
            event.created_at.date().isoformat(),
            event.repo_id,
            event.kind,
            event.team_id,
        )
        for event in events
        if event.kind in ACTIVITY
    )
    with connection.cursor() as cursor:
        for values, count in added.items():
            cursor.execute(ADD_COUNT, (*values, count))


def _ping(event: Event, pings: Iterable[Pinged]) -> None:
    """Write the pings of an event, and the jobs that mail them: two statements, or none without
    people.
    """
    by_person: dict[int, Pinged] = {}
    for person, kind in sorted(pings, key=lambda pinged: PRIORITY[pinged[1]]):
        if person.is_active and person.pk != event.actor_id:
            by_person.setdefault(person.pk, (person, kind))
    if by_person:
        Ping.objects.bulk_create(
            Ping(event=event, user_id=pk, kind=kind) for pk, (_, kind) in by_person.items()
        )
    mailed = [pk for pk, (person, _) in by_person.items() if person.wants_mail]
    if mailed and settings.SENDS_MAIL:
        thread, before = event.thread_id or 0, event.pk - 1
        PingMail.objects.bulk_create(
            [PingMail(user_id=pk, thread_id=thread, newest=event.pk, told=before) for pk in mailed],
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
    """Make ids become visible in order. On SQLite, `BEGIN IMMEDIATE` does so by itself."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor, metrics.event_lock_seconds.timed():
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ORDER_LOCK])


def rename_person(name: str, placeholder: str) -> None:
    """Replace a username in the events and in the audit log, and remove the display names that it
    had. Reads all of both: no index finds a name in their data.
    """
    names = {f"{kind}{name}": f"{kind}{placeholder}" for kind in ("", "users/", "user:")}
    for events in _batches_naming(Event, name):
        for event in events:
            event.target, event.data = _renamed(event.target, names), _renamed(event.data, names)
            for suffix in ("web_suffix", "api_suffix"):
                folder, _, end = (getattr(event, suffix) or "").rpartition("/")
                if end == name:
                    setattr(event, suffix, f"{folder}/{placeholder}")
        Event.objects.bulk_update(events, ["target", "data", "web_suffix", "api_suffix"])
    for entries in _batches_naming(AuditEntry, name):
        for entry in entries:
            entry.target, entry.data = _renamed(entry.target, names), _renamed(entry.data, names)
        AuditEntry.objects.bulk_update(entries, ["target", "data"])


def _batches_naming(model: Any, name: str) -> Iterator[list[Any]]:
    """The rows that may contain a username, in the order of their ids."""
    named = Q(target__username=name) | Q(data__username=name) | Q(data__scope=f"user:{name}")
    named |= Q(kind__startswith="protection-")  # no query on both databases looks into their lists
    rows, last = model.objects.filter(named).order_by("pk"), 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH_SIZE]):
        yield batch
        last = batch[-1].pk


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """An event's target or data with these names replaced, and without display names."""
    if not isinstance(value, dict):
        return value
    return {
        key: _replaced(inner, names) if key in NAMING else _renamed(inner, names)
        for key, inner in value.items()
        if key != "display_name"
    }


def _replaced(value: Any, names: dict[str, str]) -> Any:
    return [*map(names.get, value, value)] if isinstance(value, list) else names.get(value, value)
