"""Event scopes: from their text to a key of the log, to its events, and back with today's names.

Their forms and who may use them: docs/api.md. The apps above explain their own forms through
`settings.EVENT_SCOPES`; `self`, `inbox` and `site` are explained here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.conf import settings

from apps.core.access import Principal
from apps.core.errors import Forbidden, Invalid
from apps.core.json import quoted
from apps.events.models import PINGED, Event, EventQuerySet, EventRow, Key, event_scope_type

FORMS = (
    "Known: self, inbox, site, user:<username>, team:<team_slug>, repo:teams/<team>/<repo>, "
    "repo:users/<user>/<repo>, and thread: or pull: with /<number> behind such a repo."
)
REPO = r"([Tt][Ee][Aa][Mm][Ss]|[Uu][Ss][Ee][Rr][Ss])/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100}"
PATTERN = (
    rf"^(self|inbox|site|(user|team):[^\x00]+|repo:{REPO}|(thread|pull):{REPO}/[0-9]{{1,19}})$"
)
"""The forms of scopes, for the OpenAPI document."""


@dataclass(frozen=True)
class EventScope:
    """An event scope that its caller may use, and the key of its events."""

    form: str
    key: Key

    @property
    def filtered(self) -> bool:
        """Whether the events of somebody are meant, each of which has to be checked."""
        return self.key.is_somebodys

    def is_open_to(self, principal: Principal) -> bool:
        """Whether this principal, read anew, may still follow it."""
        if self.form == "site":
            return principal.is_staff
        if self.filtered:
            return True
        return event_scope_type(self.form).readable(principal).filter(pk=self.key.value).exists()


def resolve(principal: Principal, texts: Iterable[str]) -> tuple[EventScope, ...]:
    """The event scopes named by a request, each once; 403, 404, or 422 `invalid_scope`."""
    return tuple(dict.fromkeys(_resolve_one(principal, text) for text in texts))


def _resolve_one(principal: Principal, text: str) -> EventScope:
    form, _, rest = text.partition(":")
    if text == "self":
        return EventScope(text, Key("actor_id", principal.user.pk))
    if text == "inbox":
        return EventScope(text, Key(PINGED, principal.user.pk))
    if text == "site":
        if not principal.is_staff:
            raise Forbidden("staff_required", "Only staff may follow the site scope.")
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
    """The events that are asked for: of any of the scopes, and of any of the kinds if there are."""

    principal: Principal
    event_scopes: tuple[EventScope, ...]
    kinds: frozenset[str]

    def find(self, *, after: int, before: int, size: int, newest_first: bool) -> list[EventRow]:
        """At most `size` events with `after` < id < `before`, in order.

        One query for each scope, so that each walks along its own index.
        """
        sign = "-" if newest_first else ""
        found: dict[int, EventRow] = {}
        for event_scope in self.event_scopes:
            rows = self._rows(event_scope).filter(id__gt=after, id__lt=before)
            rows = rows.order_by(f"{sign}{event_scope.key.order}")
            found.update((event.id, event) for event in rows[:size].rows())
        return [found[pk] for pk in sorted(found, reverse=newest_first)[:size]]

    def _rows(self, event_scope: EventScope) -> EventQuerySet:
        rows = Event.objects.of(event_scope.key)
        if event_scope.filtered:
            rows = rows.visible_to(self.principal)
        if self.kinds:
            rows = rows.filter(kind__in=self.kinds)
        return rows

    def renewed(self) -> Selection | None:
        """What may still be followed of it; None when its credential opens nothing any more."""
        principal = self.principal.renewed()
        if principal is None:
            return None
        still = tuple(one for one in self.event_scopes if one.is_open_to(principal))
        return replace(self, principal=principal, event_scopes=still)


class Names:
    """Today's names of the repositories and teams that a page of events speaks of."""

    def __init__(self, events: Iterable[EventRow | Event]) -> None:
        events = list(events)
        self.repos = _texts("repo", {event.repo_id for event in events})
        self.teams = _texts("team", {event.team_id for event in events})

    def scopes(self, event: EventRow) -> list[str]:
        """Every form that this event matches, but `self` and `inbox`."""
        found = []
        if event.site:
            found.append("site")
        if event.actor__username is not None:
            found.append(f"user:{event.actor__username}")
        if event.team_id in self.teams:
            found.append(f"team:{self.teams[event.team_id]}")
        if event.repo_id in self.repos:
            path = self.repos[event.repo_id]
            found.append(f"repo:{path}")
            if event.thread_id is not None:
                found.append(f"thread:{path}/{event.number}")
            if event.is_pull:
                found.append(f"pull:{path}/{event.number}")
        return found


def _texts(name: str, ids: set[int | None]) -> dict[int | None, str]:
    wanted = {one for one in ids if one is not None}
    found = event_scope_type(name).texts(wanted) if wanted else {}
    return dict(found.items())
