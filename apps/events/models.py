"""The event log: one row for each change, written in the transaction of the change; and pings.

Events store ids, not names, so that event scopes and URLs are rendered with current names. Ids of
teams, repositories and threads are plain integers, as their models are in apps above this one.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.core.access import Principal
from apps.events.audit import AuditEntry as AuditEntry
from apps.events.kinds import Kind, PingKind
from apps.jobs.leases import Leased

PINGED = "pings__user"
"""The query path from an event to the people that it pinged, used as the column of a `Key`."""


@dataclass(frozen=True)
class Key:
    """A column of the log and a value, which select the events of one person, team or thread."""

    column: str
    value: int

    @property
    def is_personal(self) -> bool:
        """Whether it selects a person's events. Access to each of these has to be checked."""
        return self.column in {"actor_id", PINGED}

    @property
    def order(self) -> str:
        """The column that sorts its events along the index that finds them."""
        return "pings__event" if self.column == PINGED else "id"


TOLD = Q(kind=PingKind.WEBHOOK_DISABLED)
"""Pings about events that only staff may read otherwise. They contain no name and no address."""


class EventScopeType(Protocol):
    """Resolves event scopes of one form. The principals are those of `apps.accounts`."""

    def key(self, principal: Any, text: str) -> Key:
        """The key of the text after the colon. 403, 404; `ValueError` if it is malformed."""
        ...

    def texts(self, ids: set[int]) -> dict[int, str]:
        """The current text of each id, in one query."""
        ...

    def readable(self, principal: Any) -> QuerySet[Any, Any]:
        """The key values that this principal may read, as a queryset for a subquery."""
        ...


class RepoScopeType(EventScopeType, Protocol):
    """The form `repo`."""

    def gone(self) -> QuerySet[Any, Any]:
        """The ids of deleted repositories, as a queryset for a subquery."""
        ...


def event_scope_type(name: str) -> EventScopeType:
    """The instance of the class that `settings.EVENT_SCOPES` names for this form."""
    scope_type: EventScopeType = import_string(settings.EVENT_SCOPES[name])()
    return scope_type


def gone_repos() -> QuerySet[Any, Any]:
    """The ids of deleted repositories. Lists of a team leave out the events of these."""
    return cast("RepoScopeType", event_scope_type("repo")).gone()


class EventRow(NamedTuple):
    """The columns of an event, and the uuid, the username and the kind of its actor."""

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
    actor__is_bot: bool | None

    def keys(self) -> Iterator[Key]:
        """All keys that select this event, but `PINGED`."""
        columns = ("team_id", "repo_id", "thread_id", "actor_id", "private_to", "site")
        for column in columns:
            value: Any = getattr(self, column)
            if value is not None:
                yield Key(column, value)


def readable_by(principal: Principal, event: str = "") -> Q:
    """The condition that this principal may read the subject of an event now.

    `event` is the path from the row to its event, such as `event__`.
    """
    user = principal.user.pk
    repos, teams = (event_scope_type(form).readable(principal) for form in ("repo", "team"))
    in_repo = Q((f"{event}repo_id__in", repos))
    if principal.is_limited:
        return in_repo
    in_team = Q((f"{event}repo_id", None), (f"{event}team_id__in", teams))
    own = Q((f"{event}repo_id", None), (f"{event}team_id", None), (f"{event}actor", user))
    readable = in_repo | in_team | Q((f"{event}private_to", user)) | own
    return readable | Q((f"{event}site", 1)) if principal.is_staff else readable


class EventQuerySet(models.QuerySet["Event"]):
    def of(self, key: Key) -> EventQuerySet:
        """The events that this key selects."""
        return self.filter((key.column, key.value))

    def visible_to(self, principal: Principal) -> EventQuerySet:
        """The events whose subject this principal may read now, and those of which they were told
        although they are for staff.
        """
        readable = readable_by(principal)
        if not principal.is_limited:
            pings = Ping.objects.filter(TOLD, event=OuterRef("pk"), user=principal.user.pk)
            readable |= Q(Q(kind=Kind.WEBHOOK_DISABLED), Exists(pings))
        return self.filter(readable)

    def rows(self) -> list[EventRow]:
        """These events, in one query; model instances would take twice as long."""
        return [EventRow(*row) for row in self.values_list(*EventRow._fields)]

    def newest_id(self) -> int:
        """The id of the newest event; 0 while there is none."""
        return self.order_by("-id").values_list("id", flat=True).first() or 0


class Event(models.Model):
    """One change. Ids become visible in order: no smaller id appears later."""

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
    """The only user, besides the actor, who may read the event, such as a token event."""
    site = models.SmallIntegerField(null=True)
    """1 for events of the event scope `site`, else null."""
    target = models.JSONField()
    title = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is "no title"
    web_suffix = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is "no page"
    api_suffix = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null: no address
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    where: str
    """The current name of its repository or team; only the admin sets it."""

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["team_id", "id"], name="event_team"),
            models.Index(fields=["repo_id", "id"], name="event_repo"),
            models.Index(fields=["thread_id", "id"], name="event_thread"),
            models.Index(fields=["actor", "id"], name="event_actor"),
            models.Index(fields=["private_to", "id"], name="event_private"),
            models.Index(fields=["site", "id"], name="event_site"),
        ]

    def __str__(self) -> str:
        return f"event {self.pk} {self.kind}"


class ActivityCount(models.Model):
    """The number of events of a kind by one actor in a repository on a day (UTC).

    Counting the events themselves would read each of them.
    """

    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,  # `activity_once` begins with it
    )
    date = models.DateField()
    repo_id = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    team_id = models.BigIntegerField(null=True)
    """The team of the repository."""
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["actor", "date", "repo_id", "kind"], name="activity_once"
            ),
        ]
        indexes = [models.Index(fields=["team_id", "date"], name="activity_team")]

    def __str__(self) -> str:
        return f"{self.count} {self.kind} on {self.date}"


class PingQuerySet(models.QuerySet["Ping"]):
    def visible_to(self, principal: Principal) -> PingQuerySet:
        """The principal's own pings about subjects that they may read now, and `TOLD`."""
        readable = readable_by(principal, "event__")
        readable = readable if principal.is_limited else readable | TOLD
        return self.filter(readable, user=principal.user.pk)

    def of_thread(self, thread_id: int) -> PingQuerySet:
        """The pings by events of a thread, or of a pull and its thread."""
        return self.filter(event__thread_id=thread_id)

    def mentioned_in(self, thread_id: int, api: str, people: Collection[int]) -> set[int]:
        """The people among these that a text has pinged by a mention already. `api` is the path of
        the text below its repository. One query, or none without people.
        """
        if not people:
            return set()
        of_text = self.of_thread(thread_id).filter(event__api_suffix=api, kind=PingKind.MENTION)
        return set(of_text.filter(user__in=people).values_list("user", flat=True))

    def people_of(self, events: Collection[int]) -> dict[int, list[int]]:
        """The ids of the people that each event pinged, by the id of the event; one query, or none
        without events.
        """
        people: defaultdict[int, list[int]] = defaultdict(list)
        if events:
            for event, person in self.filter(event__in=events).values_list("event", "user"):
                people[event].append(person)
        return people


class Ping(models.Model):
    """The notification of one person about an event, and whether they have read it."""

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
    """The job that mails the pings of one person in one thread.

    Its lease is also the wait after a mail or a failure until the next attempt.
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
    """The id of the newest event to mail."""
    told = models.BigIntegerField()
    """Events up to this id have been mailed, or need no mail."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "thread_id"], name="ping_mail_once"),
        ]
        indexes = [models.Index(fields=["newest"], name="ping_mail_due", condition=NEWS)]

    def __str__(self) -> str:
        return f"mail to {self.user_id} about thread {self.thread_id}"

    @classmethod
    def next_due(cls) -> PingMail | None:
        """The job that is due and has the oldest event; None if no job is due."""
        return cls.objects.filter(NEWS, cls.due()).order_by("newest").first()

    def untold(self, since: dt.datetime) -> PingQuerySet:
        """The unread pings to mail, by events after that time."""
        events = {"event__gt": self.told, "event__lte": self.newest, "event__created_at__gt": since}
        thread = Q(event__thread_id=self.thread_id or None)
        return Ping.objects.filter(thread, user=self.user_id, read_at=None, **events)

    def finish(self, token: uuid.UUID, wait: dt.timedelta) -> None:
        """Note that all events up to `newest`, as it was read, are mailed. Later ones wait."""
        until = timezone.now() + wait
        self._held(token).update(told=self.newest, attempts=0, lease_until=until)
