"""Event scopes: from their text to keys of the log and to events, and from events to their scopes.

docs/api.md describes the forms, and the permission that each needs. The apps above resolve their
own forms through `settings.EVENT_SCOPES`; this module resolves `self`, `inbox` and `site`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import starmap
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from apps.core.access import Permission, Principal
from apps.core.errors import Forbidden, Invalid
from apps.core.json import quoted
from apps.core.statements import Parameter, Statement, padded, parameters
from apps.events.audit import AuditEntry
from apps.events.models import (
    PINGED,
    Event,
    EventQuerySet,
    EventRow,
    Key,
    event_scope_type,
    gone_repos,
)

FORMS = (
    "Known: self, inbox, site, user:<username>, team:<team_slug>, repo:teams/<team>/<repo>, "
    "repo:users/<user>/<repo>, and thread: or pull: with /<number> behind such a repo."
)
REPO = r"([Tt][Ee][Aa][Mm][Ss]|[Uu][Ss][Ee][Rr][Ss])/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100}"
PATTERN = (
    rf"^(self|inbox|site|(user|team):[^\x00]+|repo:{REPO}|(thread|pull):{REPO}/[0-9]{{1,19}})$"
)
"""The pattern of event scopes in the OpenAPI document."""


@dataclass(frozen=True)
class EventScope:
    """An event scope that its caller may use, and the key of its events."""

    form: str
    key: Key

    def is_open_to(self, principal: Principal) -> bool:
        """Whether this principal may use the event scope now."""
        if self.form == "site":
            return principal.is_staff
        if self.form in {"self", "inbox"}:
            return True
        return event_scope_type(self.form).readable(principal).filter(pk=self.key.value).exists()


def resolve(principal: Principal, texts: Iterable[str]) -> tuple[EventScope, ...]:
    """The distinct event scopes that a request names; 403, 404, or 422 `invalid_scope`."""
    return tuple(dict.fromkeys(_resolve_one(principal, text) for text in texts))


def _resolve_one(principal: Principal, text: str) -> EventScope:
    form, _, rest = text.partition(":")
    if text in {"self", "inbox"}:
        principal.check_permission(Permission.READ)
    if text == "self":
        return EventScope(text, Key("actor_id", principal.user.pk))
    if text == "inbox":
        return EventScope(text, Key(PINGED, principal.user.pk))
    if text == "site":
        if not principal.is_of_staff:
            raise Forbidden("staff_required", "Only staff may follow the site scope.")
        principal.check_staff()
        return EventScope(text, Key("site", 1))
    if not rest or form not in settings.EVENT_SCOPES:
        raise _invalid(text)
    try:
        return EventScope(form, event_scope_type(form).key(principal, rest))
    except ValueError:
        raise _invalid(text) from None


def _invalid(text: str) -> Invalid:
    return Invalid("invalid_scope", f"{quoted(text, 200)} is no scope. {FORMS}")


@dataclass(frozen=True)
class Selection:
    """Selects events of any of the scopes, and of any of the kinds; without kinds, of all kinds."""

    principal: Principal
    event_scopes: tuple[EventScope, ...]
    kinds: frozenset[str]

    def page(self, *, after: int, before: int, size: int, newest_first: bool) -> list[EventRow]:
        """At most `size` events with `after` < id < `before`, in order.

        Each scope has its own query, which uses the index of that scope.
        """
        events: dict[int, EventRow] = {}
        for event_scope in self.event_scopes:
            rows = self._rows(event_scope.key, (after, before), size, newest_first)
            events.update((event.id, event) for event in rows)
        return [events[pk] for pk in sorted(events, reverse=newest_first)[:size]]

    def _rows(
        self, key: Key, ids: tuple[int, int], size: int, newest_first: bool
    ) -> Iterable[EventRow]:
        if not key.is_personal:
            return events_of(key, self.kinds, ids, size, newest_first)
        kinds = padded(sorted(self.kinds))
        rows = _between(key, *ids, kinds, newest_first).visible_to(self.principal)
        return starmap(EventRow, rows.values_list(*EventRow._fields)[:size])

    def renewed(self) -> Selection | None:
        """The selection that the principal may use now; None if its credential is not valid."""
        principal = self.principal.renewed()
        if principal is None:
            return None
        event_scopes = tuple(scope for scope in self.event_scopes if scope.is_open_to(principal))
        return replace(self, principal=principal, event_scopes=event_scopes)


def events_of(
    key: Key, kinds: Iterable[str], ids: tuple[int, int], size: int, newest_first: bool
) -> list[EventRow]:
    """At most `size` events of a key that is not personal, with ids between these two, in order.
    Without `kinds` of all kinds.

    It checks no access: the caller may read all events of the key.
    """
    (after, before), words = ids, padded(sorted(kinds))
    statement = events_statement(key.column, len(words), newest_first)
    return statement.page(0, size, value=key.value, after=after, before=before, kinds=words)


def _between(
    key: Key, after: Any, before: Any, kinds: Sequence[Any], newest_first: bool
) -> EventQuerySet:
    """The events of this key with `after` < id < `before`, of these kinds or of all, in order."""
    rows = Event.objects.of(key).filter(id__gt=after, id__lt=before)
    rows = rows.exclude(repo_id__in=gone_repos()) if key.column == "team_id" else rows
    rows = rows.filter(kind__in=kinds) if kinds else rows
    return rows.order_by(f"-{key.order}" if newest_first else key.order)


@cache
def events_statement(column: str, kinds: int, newest_first: bool) -> Statement:
    """Selects `_between`, of this number of kinds, for a key that is not personal."""
    value: Any = Parameter("value")
    after, before = Parameter("after"), Parameter("before")

    def rows() -> QuerySet[Any, Any]:
        words = parameters("kinds", kinds)
        return _between(Key(column, value), after, before, words, newest_first).values_list(
            *EventRow._fields
        )

    return Statement(rows, EventRow)


class Names:
    """The current names of the repositories and teams of some events."""

    def __init__(self, events: Iterable[EventRow | Event | AuditEntry]) -> None:
        events = list(events)
        self.repos = _texts("repo", {event.repo_id for event in events})
        self.teams = _texts("team", {event.team_id for event in events})

    def scopes(self, event: EventRow) -> list[str]:
        """The event scopes that select this event, but `self` and `inbox`."""
        scopes = []
        if event.site:
            scopes.append("site")
        if event.actor__username is not None:
            scopes.append(f"user:{event.actor__username}")
        if event.team_id in self.teams:
            scopes.append(f"team:{self.teams[event.team_id]}")
        if event.repo_id in self.repos:
            path = self.repos[event.repo_id]
            scopes.append(f"repo:{path}")
            if event.thread_id is not None:
                scopes.append(f"thread:{path}/{event.number}")
            if event.is_pull:
                scopes.append(f"pull:{path}/{event.number}")
        return scopes


def _texts(form: str, ids: set[int | None]) -> dict[int | None, str]:
    present = {pk for pk in ids if pk is not None}
    return dict(event_scope_type(form).texts(present).items()) if present else {}
