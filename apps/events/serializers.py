"""The record of an event, made from a row and today's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.core.serializers import RecordSerializer, TimestampField
from apps.core.slugs import PREFIX
from apps.events.models import EventRow
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
    data = serializers.DictField()  # type: ignore[assignment]


def event_records(events: Sequence[EventRow], base: str) -> list[dict[str, Any]]:
    """These events, with names looked up once for all."""
    names = Names(events)
    return [event_record(event, names, base) for event in events]


def event_record(event: EventRow, names: Names, base: str) -> dict[str, Any]:
    """One event as JSON; `base` is the scheme and host of its URLs."""
    path = names.repos.get(event.repo_id)
    team = names.teams.get(event.team_id)
    return {
        "id": event.id,
        "kind": event.kind,
        "actor_user_uuid": event.actor__uuid,
        "actor_user_username": event.actor__username,
        "scopes": names.scopes(event),
        "summary": {
            "thread_title": event.title,
            "web_url": _web_url(event, path, team, base),
            "api_url": _api_url(event, path, team, base),
        },
        "created_at": event.created_at,
        "repo_path": path,
        "team_slug": team,
        "target": event.target,
        "data": event.data,
    }


def _web_url(event: EventRow, path: str | None, team: str | None, base: str) -> str | None:
    if event.web_suffix is None:
        return None
    if event.repo_id is not None:
        return f"{base}/{path}{event.web_suffix}" if path else None
    if event.team_id is not None:
        return f"{base}/teams/{team}{event.web_suffix}" if team else None
    return f"{base}{event.web_suffix}"


def _api_url(event: EventRow, path: str | None, team: str | None, base: str) -> str | None:
    if event.api_suffix is None:
        return None
    if event.repo_id is not None:
        owner, _, slug = (path or "").rpartition("/")
        return f"{base}{PREFIX}/{owner}/repos/{slug}{event.api_suffix}" if path else None
    if event.team_id is not None:
        return f"{base}{PREFIX}/teams/{team}{event.api_suffix}" if team else None
    return f"{base}{PREFIX}{event.api_suffix}"
