"""The event log: one row for each change, written in the change's own transaction.

It stores ids, not names: event scopes and URLs are rendered with today's slugs.
It knows no team, repository or thread model; their ids are plain numbers here.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.core.access import Principal
from apps.events.kinds import PingKind
from apps.jobs.leases import Leased

PINGED = "pings__user"
"""The column of the key of whom an event pinged: a row beside the event, not a column of it."""


@dataclass(frozen=True)
class Key:
    """One thing an event can be asked for by: a column of the log and its value."""

    column: str
    value: int

    @property
    def is_somebodys(self) -> bool:
        """Whether it is that of a person's events, each of which has to be checked."""
        return self.column in {"actor_id", PINGED}

    @property
    def order(self) -> str:
        """By what to sort its events, so that the index that finds them sorts them as well."""
        return "pings__event" if self.column == PINGED else "id"


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


def readable_by(principal: Principal, event: str = "") -> Q:
    """The condition that this principal may read now what an event is about.

    `event` is the path from the row to its event, such as `event__`.
    """
    own = principal.user.pk
    repos, teams = (event_scope_type(one).readable(principal) for one in ("repo", "team"))
    in_repo = Q((f"{event}repo_id__in", repos))
    in_team = Q((f"{event}repo_id", None), (f"{event}team_id__in", teams))
    without = Q((f"{event}repo_id", None), (f"{event}team_id", None), (f"{event}actor", own))
    readable = in_repo | in_team | Q((f"{event}private_to", own)) | without
    return readable | Q((f"{event}site", 1)) if principal.is_staff else readable


class EventQuerySet(models.QuerySet["Event"]):
    def of(self, key: Key) -> EventQuerySet:
        """Events that answer to this key."""
        return self.filter((key.column, key.value))

    def visible_to(self, principal: Principal) -> EventQuerySet:
        """Events whose subject this principal may read now."""
        return self.filter(readable_by(principal))

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
    where: str
    """Today's name of its repository or team, set in the admin only."""

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


class PingQuerySet(models.QuerySet["Ping"]):
    def visible_to(self, principal: Principal) -> PingQuerySet:
        """A person's own pings, as far as they may read now what the events are about."""
        return self.filter(readable_by(principal, "event__"), user=principal.user.pk)

    def of_thread(self, thread_id: int) -> PingQuerySet:
        """Those by events of a thread, or of a pull and its thread."""
        return self.filter(event__thread_id=thread_id)

    def mentioned_in(self, thread_id: int, api: str, people: Collection[int]) -> set[int]:
        """Which of these people the text at this address, below its repository, has pinged by a
        mention; one query, none for nobody.
        """
        if not people:
            return set()
        of_text = self.of_thread(thread_id).filter(event__api_suffix=api, kind=PingKind.MENTION)
        return set(of_text.filter(user__in=people).values_list("user", flat=True))

    def people_of(self, events: Collection[int]) -> dict[int, list[int]]:
        """Whom each of these events pinged, by its id; one query, none for no event."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        if events:
            for event, person in self.filter(event__in=events).values_list("event", "user"):
                found[event].append(person)
        return found


class Ping(models.Model):
    """An event that one person should know of, and whether they have seen it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="pings")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="pings",
        db_index=False,  # `ping_once` begins with it
    )
    kind = models.CharField(max_length=20)
    read_at = models.DateTimeField(null=True)

    objects = PingQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "event"], name="ping_once"),
        ]
        indexes = [
            models.Index(fields=["user", "event"], name="ping_unread", condition=Q(read_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.user_id} by event {self.event_id}"


NEWS = Q(newest__gt=F("told"))


class PingMail(Leased):
    """Which pings of one person in one thread are to be told by mail: the job that sends it.

    Its lease is also the wait: after a mail, and after a failure, until the next.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,  # `ping_mail_once` begins with it
    )
    thread_id = models.BigIntegerField()
    """0 for pings that are about no thread."""
    newest = models.BigIntegerField()
    """The newest event that is to be told."""
    told = models.BigIntegerField()
    """Events up to this one have been told, or need not be."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "thread_id"], name="ping_mail_once"),
        ]
        indexes = [models.Index(fields=["newest"], name="ping_mail_due", condition=NEWS)]

    def __str__(self) -> str:
        return f"mail to {self.user_id} about thread {self.thread_id}"

    @classmethod
    def next_due(cls) -> PingMail | None:
        """The one that has waited longest of those whose time has come."""
        return cls.objects.filter(NEWS, cls.due()).order_by("newest").first()

    def untold(self, since: dt.datetime) -> PingQuerySet:
        """The pings of it by events after that time which the person has not read, oldest first."""
        events = {"event__gt": self.told, "event__lte": self.newest, "event__created_at__gt": since}
        thread = Q(event__thread_id=self.thread_id or None)
        return Ping.objects.filter(thread, user=self.user_id, read_at=None, **events)

    def finish(self, token: uuid.UUID, wait: dt.timedelta) -> None:
        """Note that all up to `newest`, as it was read, is told; what comes waits this long."""
        until = timezone.now() + wait
        self._held(token).update(told=self.newest, attempts=0, lease_until=until)
