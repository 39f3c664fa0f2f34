"""Reading pings, events and activity, for the API and the pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Func, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import TruncDate

from apps.core.access import Principal
from apps.events.kinds import Kind
from apps.events.models import Event, EventRow, Key, Ping, PingQuerySet

NEWEST = """SELECT id FROM (
    SELECT id FROM events_event WHERE {} = %s AND id < %s ORDER BY id DESC LIMIT %s
) AS newest"""
"""Selects the newest ids of one key, along its index."""
ACTIVITY = {
    Kind.PULL_CREATED: "pulls_created",
    Kind.PULL_MERGED: "pulls_merged",
    Kind.REVIEW_CREATED: "reviews_created",
    Kind.THREAD_CREATED: "threads_created",
    Kind.REPLY_CREATED: "replies_created",
    Kind.BRANCH_CREATED: "pushes",
    Kind.BRANCH_PUSHED: "pushes",
}
"""The kinds of events that count as activity, and the total in which each counts."""


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
    text = " UNION ".join(NEWEST.format(key.column) for key in distinct)
    parameters = [value for key in distinct for value in (key.value, before, size)]
    events = Event.objects.filter(pk__in=RawSQL(text, parameters))  # noqa: S611 - columns of ours
    return events.order_by("-id")[:size].rows()


class UtcDate(TruncDate):
    """The date of a moment in UTC.

    On SQLite it is the beginning of the stored text: `TruncDate` would call a Python function for
    each row, which takes most of the time.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return Func(*self.get_source_expressions(), Value(1), Value(10), function="SUBSTR").as_sql(
            compiler, connection, **context
        )


def count_activity(key: Key, viewer: Principal, since: dt.date) -> QuerySet[Any, Any]:
    """Date, kind and number of the events of activity that the viewer may read, since a date."""
    begin = dt.datetime.combine(since, dt.time.min, dt.UTC)
    rows = Event.objects.of(key).filter(created_at__gte=begin, kind__in=ACTIVITY)
    by_date = rows.visible_to(viewer).annotate(date=UtcDate("created_at", tzinfo=dt.UTC))
    return by_date.order_by().values_list("date", "kind").annotate(count=Count("id"))
