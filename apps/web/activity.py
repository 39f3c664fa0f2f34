"""`/activity`: the newest events in a person's teams and repositories, or in one event scope."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.pagination import with_parameters
from apps.events.models import EventRow, Key
from apps.events.pagination import PAST_ALL, read_cursor
from apps.events.queries import newest_events
from apps.events.scopes import Selection, resolve
from apps.events.sentences import sentence
from apps.events.serializers import DAYS, event_records
from apps.repos.access import RepoAccess
from apps.repos.models import Repo
from apps.repos.queries import list_own_repos
from apps.teams.access import TeamAccess
from apps.teams.models import Team
from apps.teams.queries import accessible_teams
from apps.web.decorators import page, repo_page, team_page
from apps.web.frame import render_repo_page, team_context
from apps.web.responses import PageRequest, render_page

MOST_OWN = 50
"""How many of a person's teams, and of their own repositories, the page covers."""
EVENTS_PER_PAGE = 50
"""Events per page."""
HEIGHT = 36
"""Height of the tallest bar in units of the drawing; the bar of a day without events has 1."""
STEP = 4
TOTALS = {
    "pulls_created": ("pull", "pulls"),
    "reviews_created": ("review", "reviews"),
    "threads_created": ("thread", "threads"),
    "replies_created": ("reply", "replies"),
    "pushes": ("push", "pushes"),
}
"""The singular and plural for each total of the API, as the line below the drawing has them."""
MOST_SCOPES = 20
"""Scopes that one page follows: each is one more check for the stream, in a longer address."""


@page(Level.NONE)
def activity(request: PageRequest) -> HttpResponse:
    """The events of `?scope=`, or else those of the person's teams and repositories."""
    principal, before = request.principal, before_id(request)
    teams = [*accessible_teams(principal)[:MOST_OWN]]
    repos = list_own_repos(principal).filter(owner_user=principal.user.pk)
    keys = scope_keys(principal, teams, repos[:MOST_OWN])
    scope = request.GET.get("scope", "")
    if scope:
        selection = Selection(principal, resolve(principal, [scope]), frozenset())
        events = selection.page(after=0, before=before, size=EVENTS_PER_PAGE + 1, newest_first=True)
    else:
        events = newest_events(keys.values(), before=before, size=EVENTS_PER_PAGE + 1)
    choices = scope_choices(keys, scope, is_staff=principal.is_staff)
    feed = feed_page(request, events, [scope] if scope else keys)
    return render_page(request, "activity", feed=feed, choices=choices, scope=scope)


def scope_choices(keys: dict[str, Key], scope: str, *, is_staff: bool) -> list[tuple[str, str]]:
    """The menu of scopes: each scope with its name, the selected one included."""
    choices = {"": "Your teams and repositories", "self": "Your activity", "inbox": "Your pings"}
    choices |= {"site": "The site"} if is_staff else {}
    choices |= {word: word.partition(":")[2].removeprefix("users/") for word in keys}
    return [*(choices if scope in choices else {**choices, scope: scope}).items()]


@repo_page()
def repo_activity(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The events of a repository, for everybody who may read it."""
    keys = [Key("repo_id", access.repo.pk)]
    events = newest_events(keys, before=before_id(request), size=EVENTS_PER_PAGE + 1)
    scopes = [f"repo:{access.repo.path}"] if request.principal.is_signed_in else []
    feed = feed_page(request, events, scopes)
    return render_repo_page(request, access, "repo_activity", tab="activity", feed=feed)


@team_page()
def team_activity(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """The events of a team and its repositories, for its members."""
    keys = [Key("team_id", access.team.pk)]
    events = newest_events(keys, before=before_id(request), size=EVENTS_PER_PAGE + 1)
    feed = feed_page(request, events, [f"team:{access.team.slug}"])
    return render_page(request, "team_activity", feed=feed, **team_context(access, "activity"))


def before_id(request: HttpRequest) -> int:
    """The id before which the page begins: `?before_id=`, else one larger than all ids; 422."""
    text = request.GET.get("before_id")
    return PAST_ALL if text is None else read_cursor("before_id", text)


def feed_context(records: Sequence[dict[str, Any]], scopes: Iterable[str] = ()) -> dict[str, Any]:
    """The context of a list of events. `scopes` are the stream's scopes that a live list follows,
    beginning after its newest event; a list without scopes is not live.
    """
    return {
        "items": [{"event": record, "words": sentence(record)} for record in records],
        "scopes": " ".join([*scopes][:MOST_SCOPES]),
        "after": records[0]["id"] if records else 0,
    }


def feed_page(
    request: HttpRequest, events: Sequence[EventRow], scopes: Iterable[str]
) -> dict[str, Any]:
    """The context of a page of events, with links to newer and older ones. `events` has one more
    than fits if there are older ones. Only the first page is live.
    """
    first, is_first = events[:EVENTS_PER_PAGE], "before_id" not in request.GET
    path, more = request.path, len(events) > EVENTS_PER_PAGE
    newest = with_parameters(request.GET, before_id=None)
    return {
        **feed_context(event_records(first, ""), scopes if is_first else ()),
        "next": f"{path}?{with_parameters(request.GET, before_id=first[-1].id)}" if more else None,
        "previous": None if is_first else f"{path}?{newest}".removesuffix("?"),
    }


def scope_keys(
    principal: Principal, teams: Iterable[Team], repos: Iterable[Repo]
) -> dict[str, Key]:
    """The keys of the events of these teams and the person's own repositories, by stream scope."""
    own = [repo for repo in repos if repo.owner_user_id == principal.person_id]
    return {
        **{f"team:{team.slug}": Key("team_id", team.pk) for team in teams},
        **{f"repo:{repo.path}": Key("repo_id", repo.pk) for repo in own},
    }


def graph(record: dict[str, Any]) -> dict[str, Any]:
    """The chart of a person's activity, one bar a day, made from the activity record of the API."""
    days = record["days"]
    top = max(days, key=lambda day: day["count"])
    heights = [max(1, round(HEIGHT * day["count"] / max(top["count"], 1))) for day in days]
    bars = [f"M{day * STEP} {HEIGHT}v-{high}h3v{high}z" for day, high in enumerate(heights)]
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
        "words": [
            f"{totals[name]} {names[totals[name] > 1]}"
            for name, names in TOTALS.items()
            if totals[name]
        ],
    }
