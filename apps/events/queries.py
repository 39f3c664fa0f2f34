"""Reading pings, events and activity, for the API and the pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet, Sum
from django.db.models.expressions import RawSQL

from apps.core.access import Principal
from apps.events.models import (
    ActivityCount,
    Event,
    EventRow,
    Key,
    Ping,
    PingQuerySet,
    event_scope_type,
    gone_repos,
)

NEWEST = """SELECT id FROM (
    SELECT id FROM events_event WHERE {} = %s AND id < %s
    AND (repo_id IS NULL OR repo_id NOT IN ({})) ORDER BY id DESC LIMIT %s
) AS newest"""
"""Selects the newest ids of one key, along its index, without those of deleted repositories."""


class PingRow(NamedTuple):
    """The columns of a ping that lists show, and its event."""

    uuid: UUID
    kind: str
    read_at: dt.datetime | None
    event: EventRow


PING_COLUMNS = ("uuid", "kind", "read_at", *(f"event__{name}" for name in EventRow._fields))


def list_pings(principal: Principal, *, unread: bool = False) -> PingQuerySet:
    """The person's pings about subjects that they may read now, newest first."""
    pings = Ping.objects.all().visible_to(principal).order_by("-event")
    return pings.filter(read_at=None) if unread else pings


def ping_values(pings: PingQuerySet) -> QuerySet[Any, Any]:
    """These pings as tuples, of which `ping_row` makes a `PingRow` each."""
    return pings.values_list(*PING_COLUMNS)


def ping_row(values: Sequence[Any]) -> PingRow:
    """One row of `ping_values`."""
    uuid, kind, read_at, *event = values
    return PingRow(uuid, kind, read_at, EventRow(*event))


def newest_events(keys: Iterable[Key], *, before: int, size: int) -> list[EventRow]:
    """At most `size` events of any of these keys with smaller ids than `before`, newest first.

    One query, which reads the index of each key. It checks no access: the caller has to be allowed
    to read all events of the keys.
    """
    distinct = [*dict.fromkeys(keys)]
    if not distinct:
        return []
    gone = str(gone_repos().query)  # it has no parameters
    text = " UNION ".join(NEWEST.format(key.column, gone) for key in distinct)
    parameters = [value for key in distinct for value in (key.value, before, size)]
    events = Event.objects.filter(pk__in=RawSQL(text, parameters))  # noqa: S611 - columns of ours
    return events.order_by("-id")[:size].rows()


def count_activity(key: Key, viewer: Principal, since: dt.date) -> QuerySet[Any, Any]:
    """Date, kind and number of the events of activity that the viewer may read, since a date."""
    readable = event_scope_type("repo").readable(viewer)
    counts = ActivityCount.objects.filter((key.column, key.value), date__gte=since)
    by_date = counts.filter(repo_id__in=readable).values_list("date", "kind")
    return by_date.annotate(total=Sum("count"))
