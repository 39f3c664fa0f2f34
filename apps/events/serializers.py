"""The record of an event, made from a row and today's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.core.serializers import RecordSerializer, TimestampField
from apps.core.slugs import PREFIX
from apps.events.kinds import PingKind
from apps.events.models import Event, EventRow, Ping
from apps.events.scopes import Names


class Summary(RecordSerializer):
    thread_title = serializers.CharField(allow_null=True)
    web_url = serializers.CharField(allow_null=True)
    api_url = serializers.CharField(allow_null=True)


class EventRecord(RecordSerializer):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    actor_user_uuid = serializers.UUIDField(allow_null=True)
    actor_user_username = serializers.CharField(allow_null=True)
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


def event_records(events: Sequence[EventRow], base: str) -> list[dict[str, Any]]:
    """These events, with names looked up once for all."""
    names = Names(events)
    return [event_record(event, names, base) for event in events]


def event_record(event: EventRow, names: Names, base: str) -> dict[str, Any]:
    """One event as JSON; `base` is the scheme and host of its URLs."""
    path = names.repos.get(event.repo_id)
    team = names.teams.get(event.team_id)
    web, api = _roots(event, path, team)
    return {
        "id": event.id,
        "kind": event.kind,
        "actor_user_uuid": event.actor__uuid,
        "actor_user_username": event.actor__username,
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
    """What it is about. The number of a pull is called `number` whatever it is about; events of
    reviews were written when theirs was `pull_number` alone, and have both.
    """
    target: dict[str, Any] = event.target
    if "pull_number" in target:
        return {**target, "number": target["pull_number"]}
    return target


def _roots(
    event: EventRow, path: str | None, team: str | None
) -> tuple[str, str] | tuple[None, None]:
    """What its suffixes follow, as a page and in the API; None where that is gone."""
    if event.repo_id is not None:
        owner, _, slug = (path or "").rpartition("/")
        return (f"/{path}", f"{PREFIX}/{owner}/repos/{slug}") if path else (None, None)
    if event.team_id is not None:
        return (f"/teams/{team}", f"{PREFIX}/teams/{team}") if team else (None, None)
    return "", PREFIX


def _url(base: str, root: str | None, suffix: str | None) -> str | None:
    return None if root is None or suffix is None else f"{base}{root}{suffix}"


def ping_records(pings: Sequence[Ping], base: str) -> list[dict[str, Any]]:
    """These pings, with their events and names looked up once for all; `base` as above."""
    events = Event.objects.filter(pk__in=[ping.event_id for ping in pings])
    found = {event["id"]: event for event in event_records(events.rows(), base)}
    return [ping_record(ping, found[ping.event_id]) for ping in pings]


def ping_record(ping: Ping, event: dict[str, Any]) -> dict[str, Any]:
    """One ping as JSON, from the record of its event."""
    return {
        "uuid": ping.uuid,
        "kind": ping.kind,
        "event_id": ping.event_id,
        **event["summary"],
        "is_read": ping.read_at is not None,
        "created_at": event["created_at"],
    }
