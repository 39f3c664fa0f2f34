"""The event log: one row for each change, written in the change's own transaction.

It stores ids, not names: event scopes and URLs are rendered with today's slugs.
It knows no team, repository or thread model; their ids are plain numbers here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from apps.core.access import Principal


@dataclass(frozen=True)
class Key:
    """One thing an event can be asked for by: a column of the log and its value."""

    column: str
    value: int


class EventScopeType(Protocol):
    """Explains one form of event scopes. Its principals are those of `apps.accounts`."""

    def key(self, principal: Any, text: str) -> Key:
        """The key of `text`, which follows the colon. 403, 404; `ValueError` for a bad form."""
        ...

    def texts(self, ids: set[int]) -> dict[int, str]:
        """Today's text of each id, in one query."""
        ...

    def readable(self, principal: Any) -> QuerySet[Any, Any]:
        """The values of its keys that this principal may read, as a queryset for a subquery."""
        ...


def event_scope_type(name: str) -> EventScopeType:
    """What understands this form of event scopes; `settings.EVENT_SCOPES` names it."""
    found: EventScopeType = import_string(settings.EVENT_SCOPES[name])()
    return found


class EventRow(NamedTuple):
    """An event as it is read: its columns, and the names of who did it."""

    id: int
    kind: str
    actor_id: int | None
    team_id: int | None
    repo_id: int | None
    thread_id: int | None
    private_to: int | None
    site: int | None
    number: int | None
    is_pull: bool
    target: dict[str, Any]
    title: str | None
    web_suffix: str | None
    api_suffix: str | None
    data: dict[str, Any]
    created_at: dt.datetime
    actor__uuid: UUID | None
    actor__username: str | None

    def keys(self) -> Iterator[Key]:
        """Every key that this event answers to."""
        columns = ("team_id", "repo_id", "thread_id", "actor_id", "private_to", "site")
        for column in columns:
            value: Any = getattr(self, column)
            if value is not None:
                yield Key(column, value)


class EventQuerySet(models.QuerySet["Event"]):
    def of(self, key: Key) -> EventQuerySet:
        """Events that answer to this key."""
        return self.filter((key.column, key.value))

    def visible_to(self, principal: Principal) -> EventQuerySet:
        """Events whose subject this principal may read now."""
        own = principal.user.pk
        readable = (
            Q(repo_id__in=event_scope_type("repo").readable(principal))
            | Q(repo_id=None, team_id__in=event_scope_type("team").readable(principal))
            | Q(private_to=own)
            | Q(actor=own, repo_id=None, team_id=None)
        )
        return self.filter(readable | Q(site=1) if principal.is_staff else readable)

    def rows(self) -> list[EventRow]:
        """These events, read in one query: a whole event, or person, takes twice as long."""
        return [EventRow(*row) for row in self.values_list(*EventRow._fields)]

    def newest_id(self) -> int:
        """The id of the newest event; 0 while there is none."""
        return self.order_by("-id").values_list("id", flat=True).first() or 0


class Event(models.Model):
    """One change. Ids become visible in order: every smaller one is settled by then."""

    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,  # `event_actor` begins with it
    )
    team_id = models.BigIntegerField(null=True)
    repo_id = models.BigIntegerField(null=True)
    thread_id = models.BigIntegerField(null=True)
    """Also set for a pull: the id of its companion thread."""
    number = models.BigIntegerField(null=True)
    """The number of the thread or pull within its repository."""
    is_pull = models.BooleanField(default=False)
    private_to = models.BigIntegerField(null=True)
    """The only user, beside the actor, who may read it (token events)."""
    site = models.SmallIntegerField(null=True)
    """1 for an event of the site scope."""
    target = models.JSONField()
    title = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is "no title"
    web_suffix = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is "no page"
    api_suffix = models.CharField(max_length=255, null=True)  # noqa: DJ001
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["team_id", "id"], name="event_team"),
            models.Index(fields=["repo_id", "id"], name="event_repo"),
            models.Index(fields=["thread_id", "id"], name="event_thread"),
            models.Index(fields=["actor", "id"], name="event_actor"),
            models.Index(fields=["private_to", "id"], name="event_private"),
            models.Index(fields=["site", "id"], name="event_site"),
            models.Index(fields=["team_id", "created_at"], name="event_team_time"),
            models.Index(fields=["actor", "created_at"], name="event_actor_time"),
        ]

    def __str__(self) -> str:
        return f"event {self.pk} {self.kind}"
