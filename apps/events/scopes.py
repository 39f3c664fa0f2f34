"""Scope strings: from text to a key of the log, and back with today's names.

Forms and who may use them: behaviour.md §5. The apps above explain their own forms through
`settings.EVENT_SCOPES`; `self` and `site` are explained here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from django.conf import settings
from django.db.models import QuerySet

from apps.core.errors import Forbidden, Invalid
from apps.events.models import Event, Key, scope_source

if TYPE_CHECKING:
    from apps.accounts.models import User


class ScopeSource(Protocol):
    """Explains one scope form."""

    def key(self, user: User, text: str) -> Key:
        """The key of `text`, which follows the colon. 403, 404; `ValueError` for a bad form."""
        ...

    def texts(self, ids: set[int]) -> dict[int, str]:
        """Today's text of each id, in one query."""
        ...

    def readable(self, user: User) -> QuerySet[Any, Any]:
        """The ids that this person may read, as a queryset for a subquery."""
        ...


@dataclass(frozen=True)
class Scope:
    """A scope that its caller may use. `filtered`: its events are checked one by one."""

    text: str
    key: Key
    filtered: bool


FILTERED = {"self", "user"}


def resolve(user: User, texts: Iterable[str]) -> list[Scope]:
    """The scopes named by a request; 403, 404, or 422 `invalid_scope`."""
    scopes = [_resolve_one(user, text) for text in dict.fromkeys(texts)]
    if not scopes:
        raise Invalid("invalid_scope", f"scope: At least one is required. {forms()}")
    return scopes


def _resolve_one(user: User, text: str) -> Scope:
    form, colon, rest = text.partition(":")
    if text == "self":
        return Scope(text, Key("actor_id", user.pk), filtered=True)
    if text == "site":
        if not user.is_staff:
            raise Forbidden("staff_required", "Only staff may follow the site scope.")
        return Scope(text, Key("site", 1), filtered=False)
    if not colon or form not in settings.EVENT_SCOPES:
        raise _invalid(text)
    try:
        key = scope_source(form).key(user, rest)
    except ValueError:
        raise _invalid(text) from None
    return Scope(text, key, filtered=form in FILTERED)


def _invalid(text: str) -> Invalid:
    return Invalid("invalid_scope", f'"{text[:200]}" is no scope. {forms()}')


def forms() -> str:
    return (
        "Known: self, site, user:<username>, team:<team_slug>, repo:teams/<team>/<repo>, "
        "repo:users/<user>/<repo>, and thread: or pull: with /<number> behind such a repo."
    )


class Names:
    """Today's names of the repositories and teams that a page of events speaks of."""

    def __init__(self, events: Iterable[Event]) -> None:
        events = list(events)
        self.repos = _texts("repo", {event.repo_id for event in events})
        self.teams = _texts("team", {event.team_id for event in events})

    def scopes(self, event: Event) -> list[str]:
        """Every form that this event matches, but `self` and `inbox`."""
        found = []
        if event.site:
            found.append("site")
        if event.actor is not None:
            found.append(f"user:{event.actor.username}")
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
    found = scope_source(name).texts(wanted) if wanted else {}
    return dict(found.items())
