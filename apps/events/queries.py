"""What the API and the pages show of events and pings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from apps.core.access import Principal
from apps.events.models import Event, EventRow, Key, Ping, PingQuerySet

NEWEST = """SELECT id FROM (
    SELECT id FROM events_event WHERE {} = %s AND id < %s ORDER BY id DESC LIMIT %s
) AS newest"""
"""The newest ids under one key, along its index."""


class PingRow(NamedTuple):
    """A ping as lists show it, with its event."""

    uuid: UUID
    kind: str
    read_at: dt.datetime | None
    event: EventRow


PING_COLUMNS = ("uuid", "kind", "read_at", *(f"event__{name}" for name in EventRow._fields))


def list_pings(principal: Principal, *, unread: bool = False) -> PingQuerySet:
    """The person's pings about what they may read now, newest first; `unread`: only those."""
    found = Ping.objects.all().visible_to(principal).order_by("-event")
    return found.filter(read_at=None) if unread else found


def ping_values(pings: PingQuerySet) -> QuerySet[Any, Any]:
    """These pings as light rows, each with its event; `ping_row` makes a `PingRow` of one."""
    return pings.values_list(*PING_COLUMNS)


def ping_row(values: Sequence[Any]) -> PingRow:
    """One row of `ping_values`."""
    uuid, kind, read_at, *event = values
    return PingRow(uuid, kind, read_at, EventRow(*event))


def newest_events(keys: Iterable[Key], *, before: int, size: int) -> list[EventRow]:
    """At most `size` events under any of these keys with smaller ids, newest first; one query.

    Each key is asked along its own index, however many events there are. The caller may read all
    of them: no event is checked.
    """
    wanted = [*dict.fromkeys(keys)]
    if not wanted:
        return []
    text = " UNION ".join(NEWEST.format(key.column) for key in wanted)
    parameters = [value for key in wanted for value in (key.value, before, size)]
    found = Event.objects.filter(pk__in=RawSQL(text, parameters))  # noqa: S611 - columns of ours
    return found.order_by("-id")[:size].rows()
