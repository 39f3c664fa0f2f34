"""What a person did, or what went on in a team, in the last 90 days, by day and by sort.

Counted from the events that the caller may read, in one query, along an index of whose they are
and when.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from django.db.models import Count, Func, Value
from django.db.models.functions import TruncDate
from django.utils import timezone
from rest_framework import serializers

from apps.core.access import Principal
from apps.core.serializers import RecordSerializer
from apps.events.kinds import Kind
from apps.events.models import Event, Key

DAYS = 90
COUNTED = {
    Kind.PULL_CREATED: "pulls_created",
    Kind.PULL_MERGED: "pulls_merged",
    Kind.REVIEW_CREATED: "reviews_created",
    Kind.THREAD_CREATED: "threads_created",
    Kind.REPLY_CREATED: "replies_created",
    Kind.BRANCH_CREATED: "pushes",
    Kind.BRANCH_PUSHED: "pushes",
}
"""The kinds of events that are activity, and what each counts as."""


class ActivityDay(RecordSerializer):
    date = serializers.DateField()
    count = serializers.IntegerField()


class ActivityTotals(RecordSerializer):
    pulls_created = serializers.IntegerField()
    pulls_merged = serializers.IntegerField()
    reviews_created = serializers.IntegerField()
    threads_created = serializers.IntegerField()
    replies_created = serializers.IntegerField()
    pushes = serializers.IntegerField()


class ActivityRecord(RecordSerializer):
    subject = serializers.DictField()
    to = serializers.DateField()
    days = ActivityDay(many=True)
    totals = ActivityTotals()

    def get_fields(self) -> dict[str, Any]:
        """`from` as well, which Python keeps for itself."""
        return {**super().get_fields(), "from": serializers.DateField()}


class DayOf(TruncDate):
    """The day in UTC. On SQLite it is the beginning of what is stored: Django calls Python for each
    row there, which takes most of the time.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return Func(*self.get_source_expressions(), Value(1), Value(10), function="SUBSTR").as_sql(
            compiler, connection, **context
        )


def activity_record(subject: dict[str, str], key: Key, viewer: Principal) -> dict[str, Any]:
    """The activity under `key` as the viewer may see it: each of the 90 days until today, UTC."""
    today = timezone.now().date()
    dates = [today - dt.timedelta(days=ago) for ago in reversed(range(DAYS))]
    days, totals = Counter[dt.date](), dict.fromkeys(COUNTED.values(), 0)
    for day, kind, count in _counts(key, viewer, dates[0]):
        days[day] += count
        totals[COUNTED[kind]] += count
    return {
        "subject": subject,
        "from": dates[0].isoformat(),
        "to": today.isoformat(),
        "days": [{"date": date.isoformat(), "count": days[date]} for date in dates],
        "totals": totals,
    }


def _counts(key: Key, viewer: Principal, first: dt.date) -> Any:
    """Rows of day, kind and how many, from the first day on."""
    begin = dt.datetime.combine(first, dt.time.min, dt.UTC)
    rows = Event.objects.of(key).filter(created_at__gte=begin, kind__in=COUNTED)
    by_day = rows.visible_to(viewer).annotate(day=DayOf("created_at", tzinfo=dt.UTC))
    return by_day.order_by().values_list("day", "kind").annotate(count=Count("id"))
