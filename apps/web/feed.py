"""Events as pages show them: the newest of a person's teams and repositories, or of a scope."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest

from apps.accounts.principal import Principal
from apps.core.pagination import with_parameters
from apps.events.models import EventRow, Key
from apps.events.pagination import PAST_ALL, read_cursor
from apps.events.sentences import sentence
from apps.events.serializers import DAYS, event_records
from apps.repos.models import Repo
from apps.teams.models import Team

ROWS = 50
"""Events on a page."""
HEIGHT = 36
"""Of the tallest bar, in units of the drawing; a day without events has one of 1."""
STEP = 4
NAMES = {
    "pulls_created": ("pull", "pulls"),
    "reviews_created": ("review", "reviews"),
    "threads_created": ("thread", "threads"),
    "replies_created": ("reply", "replies"),
    "pushes": ("push", "pushes"),
}
"""What is said below the drawing: the totals of the API, one of them and several."""
MOST_SCOPES = 20
"""Scopes that one page follows; each costs the stream, and stands in its address."""


def before_of(request: HttpRequest) -> int:
    """Before which event the page begins: `?before_id=`, else past all; 422."""
    text = request.GET.get("before_id")
    return PAST_ALL if text is None else read_cursor("before_id", text)


def feed_of(records: Sequence[dict[str, Any]], scopes: Iterable[str] = ()) -> dict[str, Any]:
    """What the template of a list of events shows; `scopes`: what it follows where it is live, by
    the words of the stream, from the newest event that is shown.
    """
    return {
        "items": [{"event": record, "words": sentence(record)} for record in records],
        "scopes": " ".join([*scopes][:MOST_SCOPES]),
        "after": records[0]["id"] if records else 0,
    }


def feed_page(
    request: HttpRequest, found: Sequence[EventRow], scopes: Iterable[str]
) -> dict[str, Any]:
    """A page of `ROWS` events, of which one more has been asked for, with the way to older ones.

    Only the first page is live.
    """
    shown, is_first = found[:ROWS], "before_id" not in request.GET
    older = with_parameters(request.GET, before_id=shown[-1].id) if len(found) > ROWS else None
    newest = with_parameters(request.GET, before_id=None)
    return {
        **feed_of(event_records(shown, ""), scopes if is_first else ()),
        "next": f"{request.path}?{older}" if older else None,
        "previous": None if is_first else f"{request.path}?{newest}".removesuffix("?"),
    }


def places_of(principal: Principal, teams: Iterable[Team], repos: Iterable[Repo]) -> dict[str, Key]:
    """Where events of one's teams and own repositories are found, by the scopes of the stream."""
    own = [repo for repo in repos if repo.owner_user_id == principal.person_id]
    return {
        **{f"team:{team.slug}": Key("team_id", team.pk) for team in teams},
        **{f"repo:{repo.path}": Key("repo_id", repo.pk) for repo in own},
    }


def graph(record: dict[str, Any]) -> dict[str, Any]:
    """The drawing of a person's or team's activity: a bar a day, from the record of the API."""
    days = record["days"]
    top = max(days, key=lambda day: day["count"])
    heights = [max(1, round(HEIGHT * day["count"] / max(top["count"], 1))) for day in days]
    bars = [f"M{place * STEP} {HEIGHT}v-{high}h3v{high}z" for place, high in enumerate(heights)]
    totals = record["totals"]
    return {
        "bars": "".join(bars),
        "width": DAYS * STEP,
        "height": HEIGHT,
        "first": dt.date.fromisoformat(record["from"]),
        "last": dt.date.fromisoformat(record["to"]),
        "total": sum(day["count"] for day in days),
        "most": top["count"],
        "most_on": dt.date.fromisoformat(top["date"]),
        "words": [many(totals[name], *names) for name, names in NAMES.items() if totals[name]],
    }


def many(count: int, one: str, several: str) -> str:
    """`1 pull`, `2 pulls`."""
    return f"{count} {one if count == 1 else several}"
