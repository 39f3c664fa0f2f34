"""The records of events, of pings, and of the activity of a person or team."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from apps.core.access import Principal
from apps.core.serializers import RecordSerializer, TimestampField
from apps.core.slugs import PREFIX
from apps.events.kinds import ACTIVITY, PingKind
from apps.events.models import EventRow, Key
from apps.events.queries import PingRow, count_activity
from apps.events.scopes import Names

DAYS = 90
"""The number of days in a record of activity, today included."""


class Summary(RecordSerializer):
    thread_title = serializers.CharField(allow_null=True)
    web_url = serializers.CharField(allow_null=True)
    api_url = serializers.CharField(allow_null=True)


class EventRecord(RecordSerializer):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    actor_user_uuid = serializers.UUIDField(allow_null=True)
    actor_user_username = serializers.CharField(allow_null=True)
    actor_user_is_bot = serializers.BooleanField(allow_null=True)
    scopes = serializers.ListField(child=serializers.CharField())
    summary = Summary()
    created_at = TimestampField()
    repo_path = serializers.CharField(allow_null=True)
    team_slug = serializers.CharField(allow_null=True)
    target = serializers.DictField()
    data = serializers.DictField()  # type: ignore[assignment] # DRF has such a property


class PingRecord(RecordSerializer):
    uuid = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=[str(kind) for kind in PingKind])
    event_id = serializers.IntegerField()
    thread_title = serializers.CharField(allow_null=True)
    web_url = serializers.CharField(allow_null=True)
    api_url = serializers.CharField(allow_null=True)
    is_read = serializers.BooleanField()
    created_at = TimestampField()


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
        """Adds `from`, which is a keyword in Python."""
        return {**super().get_fields(), "from": serializers.DateField()}


def event_records(events: Sequence[EventRow], base: str) -> list[dict[str, Any]]:
    """The records of these events. Looks up all names at once."""
    names = Names(events)
    return [event_record(event, names, base) for event in events]


def event_record(event: EventRow, names: Names, base: str) -> dict[str, Any]:
    """The record of an event; `base` is the scheme and host of its URLs."""
    path = names.repos.get(event.repo_id)
    team = names.teams.get(event.team_id)
    web, api = _roots(event, path, team)
    return {
        "id": event.id,
        "kind": event.kind,
        "actor_user_uuid": event.actor__uuid,
        "actor_user_username": event.actor__username,
        "actor_user_is_bot": event.actor__is_bot,
        "scopes": names.scopes(event),
        "summary": {
            "thread_title": event.title,
            "web_url": _url(base, web, event.web_suffix),
            "api_url": _url(base, api, event.api_suffix),
        },
        "created_at": event.created_at,
        "repo_path": path,
        "team_slug": team,
        "target": target_of(event),
        "data": event.data,
    }


def target_of(event: EventRow) -> dict[str, Any]:
    """The target of an event. Targets of reviews have the number of their pull as `number`, and as
    `pull_number`, its only name in stored events.
    """
    target: dict[str, Any] = event.target
    if "pull_number" in target:
        return {**target, "number": target["pull_number"]}
    return target


def _roots(
    event: EventRow, path: str | None, team: str | None
) -> tuple[str, str] | tuple[None, None]:
    """The paths that precede its suffixes, of pages and of the API; None if its owner is gone."""
    if event.repo_id is not None:
        owner, _, slug = (path or "").rpartition("/")
        return (f"/{path}", f"{PREFIX}/{owner}/repos/{slug}") if path else (None, None)
    if event.team_id is not None:
        return (f"/teams/{team}", f"{PREFIX}/teams/{team}") if team else (None, None)
    return "", PREFIX


def _url(base: str, root: str | None, suffix: str | None) -> str | None:
    return None if root is None or suffix is None else f"{base}{root}{suffix}"


def ping_records(pings: Sequence[PingRow], base: str) -> list[dict[str, Any]]:
    """The records of these pings. Looks up all names at once."""
    events = event_records([ping.event for ping in pings], base)
    return [
        {
            "uuid": ping.uuid,
            "kind": ping.kind,
            "event_id": event["id"],
            **event["summary"],
            "is_read": ping.read_at is not None,
            "created_at": event["created_at"],
        }
        for ping, event in zip(pings, events, strict=True)
    ]


def activity_record(subject: dict[str, str], key: Key, viewer: Principal) -> dict[str, Any]:
    """The activity of the last 90 days (UTC) in the events of a key that the viewer may read."""
    today = timezone.now().date()
    dates = [today - dt.timedelta(days=ago) for ago in reversed(range(DAYS))]
    days, totals = Counter[dt.date](), dict.fromkeys(ACTIVITY.values(), 0)
    for date, kind, count in count_activity(key, viewer, dates[0]):
        days[date] += count
        totals[ACTIVITY[kind]] += count
    return {
        "subject": subject,
        "from": dates[0].isoformat(),
        "to": today.isoformat(),
        "days": [{"date": date.isoformat(), "count": days[date]} for date in dates],
        "totals": totals,
    }
