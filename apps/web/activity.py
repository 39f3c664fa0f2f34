"""`/activity`: what goes on, newest first; of a team and of a repository as one of their tabs."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.events.models import EventRow, Key
from apps.events.queries import newest_events
from apps.events.scopes import Selection, resolve
from apps.repos.access import RepoAccess
from apps.repos.queries import list_own_repos
from apps.teams.access import TeamAccess
from apps.teams.queries import list_teams
from apps.web.decorators import page, repo_page, team_page
from apps.web.feed import ROWS, before_of, feed_page, places_of
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, render_page
from apps.web.teams import context_of

MOST_PLACES = 50
"""Teams, and repositories of one's own, of which the first page tells."""


@page(Level.NONE)
def activity(request: PageRequest) -> HttpResponse:
    """Of the scope that the address names as for the API, else of all teams and repositories of
    the person's.
    """
    principal, before = request.principal, before_of(request)
    teams = [*list_teams(principal)[:MOST_PLACES]]
    repos = list_own_repos(principal).filter(owner_user=principal.user.pk)
    places = places_of(principal, teams, repos[:MOST_PLACES])
    scope = request.GET.get("scope", "")
    if scope:
        selection = Selection(principal, resolve(principal, [scope]), frozenset())
        found = selection.page(after=0, before=before, size=ROWS + 1, newest_first=True)
    else:
        found = newest_events(places.values(), before=before, size=ROWS + 1)
    choices = choices_of(places, scope, is_staff=principal.is_staff)
    feed = feed_page(request, found, [scope] if scope else places)
    return render_page(request, "activity", feed=feed, choices=choices, scope=scope)


def choices_of(places: dict[str, Key], scope: str, *, is_staff: bool) -> list[tuple[str, str]]:
    """The scopes in the menu of the page, each with its name; the one that is asked for as well."""
    found = {"": "Your teams and repositories", "self": "What you did", "inbox": "What pinged you"}
    found |= {"site": "The site"} if is_staff else {}
    found |= {one: one.partition(":")[2].removeprefix("users/") for one in places}
    return [*(found if scope in found else {**found, scope: scope}).items()]


@repo_page()
def repo_activity(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """What went on in a repository, for whoever may read it."""
    found = events_of(request, Key("repo_id", access.repo.pk))
    scopes = [f"repo:{access.repo.path}"] if request.principal.is_signed_in else []
    feed = feed_page(request, found, scopes)
    return render_repo_page(request, access, "repo_activity", tab="activity", feed=feed)


@team_page()
def team_activity(request: PageRequest, access: TeamAccess) -> HttpResponse:
    """What went on in a team and its repositories, for its people."""
    found = events_of(request, Key("team_id", access.team.pk))
    feed = feed_page(request, found, [f"team:{access.team.slug}"])
    return render_page(request, "team_activity", feed=feed, **context_of(access, "activity"))


def events_of(request: PageRequest, key: Key) -> list[EventRow]:
    """The events of this page under one key, of which all may be read, and one more."""
    return newest_events([key], before=before_of(request), size=ROWS + 1)
