"""The events that a webhook may send, and the webhooks that have events to send."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from django.db.models import Exists, Model, OuterRef, Q
from django.utils import timezone

from apps.accounts.models import NOT_GONE
from apps.core.statements import Parameter, Statement
from apps.events.models import Event, EventRow
from apps.events.scopes import events_of
from apps.repos.models import Repo
from apps.teams.models import Team
from apps.webhooks.models import Webhook

READ_SIZE = 1000
"""Maximum number of events in one reading of the log."""
PAST_ALL = 10**18
"""Larger than the id of any event."""
WEBHOOK_KINDS = "webhook-"
SAMPLE = 20
"""Webhooks that `due_since` looks at."""


@dataclass
class News:
    """A reading of the log: `last`, the id of the last event; the webhooks to look at; and how many
    events others have skipped. `has_changes`: a webhook was created or changed.
    """

    last: int
    webhooks: set[int] = field(default_factory=set)
    skipped: Counter[int] = field(default_factory=Counter)
    has_changes: bool = False
    is_full: bool = False


def is_due() -> Q:
    """The condition that a worker may take this webhook now."""
    now = timezone.now()
    waits = Q(next_attempt_at=None) | Q(next_attempt_at__lte=now)
    return Q(is_active=True) & waits & Webhook.due()


def read_news(last: int) -> News:
    """The events after this id, and the webhooks that they concern. Two queries."""
    columns = ("id", "kind", "repo_id", "team_id", "site")
    rows = Event.objects.filter(id__gt=last).order_by("id").values_list(*columns)[:READ_SIZE]
    events = list(rows)
    if not events:
        return News(last)
    news = News(events[-1][0], is_full=len(events) == READ_SIZE)
    kinds: dict[tuple[str, int], list[str]] = {}
    for _, kind, *values in events:
        news.has_changes |= kind.startswith(WEBHOOK_KINDS)
        for column, value in zip(columns[2:], values, strict=True):
            if value is not None:
                kinds.setdefault((column, value), []).append(kind)
    for hook in _concerned(kinds):
        key = (hook.key.column, hook.key.value)
        matching = sum(not hook.kinds or kind in hook.kinds for kind in kinds[key])
        news.skipped[hook.pk] += len(kinds[key]) - matching
        if matching:
            news.webhooks.add(hook.pk)
    return news


def _concerned(keys: Iterable[tuple[str, int]]) -> Iterable[Webhook]:
    """The active webhooks of these keys that do not wait for an attempt."""
    ids: dict[str, list[int]] = {"repo_id": [], "team_id": [], "site": []}
    for column, value in keys:
        ids[column].append(value)
    owners = Q(repo_id__in=ids["repo_id"]) | Q(team_id__in=ids["team_id"])
    if ids["site"]:
        owners |= Q(repo=None, team=None)
    waiting = Q(next_attempt_at__gt=timezone.now())
    hooks = Webhook.objects.filter(owners, ~waiting, is_active=True)
    return hooks.only("pk", "repo_id", "team_id", "kinds")


def overdue() -> list[int]:
    """Webhooks whose next attempt is due, or whose lease has expired with its worker."""
    now = timezone.now()
    retried = Webhook.objects.filter(is_active=True, next_attempt_at__lte=now)
    expired = Webhook.objects.filter(lease_until__lte=now)
    return [*retried.union(expired.filter(is_active=True)).values_list("pk", flat=True)]


def behind() -> list[int]:
    """Webhooks that are due and have events after their cursor, of any kind."""
    newer = Event.objects.filter(id__gt=OuterRef("cursor_event_id"))
    of_repo = Exists(newer.filter(repo_id=OuterRef("repo_id")))
    of_team = Exists(newer.filter(team_id=OuterRef("team_id")))
    of_site = Q(repo=None, team=None) & Exists(newer.filter(site=1))
    hooks = Webhook.objects.filter(is_due()).filter(of_repo | of_team | of_site)
    return [*hooks.order_by("pk").values_list("pk", flat=True)]


def due_since() -> dt.datetime | None:
    """The time since when events or expired leases have waited for a worker; None if none do.

    Retries are left out, as those of one host wait for each other, and so are webhooks with kinds.
    It looks at the first of many webhooks.
    """
    hooks = Webhook.objects.filter(pk__in=behind(), consecutive_failures=0, kinds=[])
    waiting = filter(None, map(next_event, hooks.order_by("cursor_event_id")[:SAMPLE]))
    times = [event.created_at for event in waiting]
    expired = Webhook.objects.filter(is_active=True, lease_until__lt=timezone.now())
    first = expired.order_by("lease_until").values_list("lease_until", flat=True).first()
    return min([*times, *([first] if first else [])], default=None)


def next_event(webhook: Webhook) -> EventRow | None:
    """The first event after the cursor that the webhook sends; None if there is none.

    The query is that of `GET /events` with the scope and the kinds of the webhook.
    """
    if not _is_open(webhook):
        return None
    ids = (webhook.cursor_event_id, PAST_ALL)
    return next(iter(events_of(webhook.key, webhook.kinds, ids, 1, newest_first=False)), None)


def event_in_scope(webhook: Webhook, event_id: int) -> EventRow | None:
    """This event, of any kind, if the webhook may send it; else None."""
    if not _is_open(webhook):
        return None
    ids = (event_id - 1, event_id + 1)
    return next(iter(events_of(webhook.key, (), ids, 1, newest_first=False)), None)


def has_skipped(webhook: Webhook, newest: int, count: int) -> bool:
    """Whether at least so many events of its key are between the cursor and `newest`."""
    rows = Event.objects.of(webhook.key).filter(id__gt=webhook.cursor_event_id, id__lte=newest)
    return _is_open(webhook) and bool(rows.order_by("id").values_list("id")[count - 1 : count])


def _is_open(webhook: Webhook) -> bool:
    """Whether the owner is not deleted: a deletion can be undone, and the webhook with it."""
    if webhook.repo_id is not None:
        return _present(Repo).first(pk=webhook.repo_id) is not None
    return webhook.team_id is None or _present(Team).first(pk=webhook.team_id) is not None


@cache
def _present(model: type[Model]) -> Statement:
    """Selects the key of a repository or team that is not deleted."""
    rows = model._base_manager.filter(NOT_GONE, pk=Parameter("pk"))
    return Statement(lambda: rows.values_list("pk"))
