"""`/`: what waits for whoever is signed in, and what goes on; for strangers what this is."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.pagination import MOST_COUNTED
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.queries import list_pings, newest_events, ping_row, ping_values
from apps.events.serializers import activity_record, event_records
from apps.pulls.queries import with_open_pulls
from apps.repos.queries import list_own_repos, list_readable_repos
from apps.site.models import SiteSettings
from apps.teams.queries import list_teams
from apps.web.decorators import page
from apps.web.feed import feed_of, graph, places_of
from apps.web.responses import PageRequest, page_number, page_of, render_page
from apps.web.waiting import in_order, ping_row_of, waiting_rows

MOST_PINGS = 50
SHOWN = 20
"""Rows of each list of what waits."""
REPOS = 10
MOST_REPOS = 50
"""Of so many repositories of one's own the events are shown."""
MOST_TEAMS = 50
EVENTS = 12


@page(Level.PUBLIC)
def home(request: PageRequest) -> HttpResponse:
    """For somebody, what they may have to do next; for nobody, what everybody may read."""
    if not request.principal.is_signed_in:
        return welcome(request)
    principal = request.principal
    repos = [*with_open_pulls(list_own_repos(principal))[:MOST_REPOS]]
    teams = [*list_teams(principal)[:MOST_TEAMS]]
    places = places_of(principal, teams, repos)
    events = newest_events(places.values(), before=PAST_ALL, size=EVENTS)
    unread = [*ping_values(list_pings(principal, unread=True))[: MOST_COUNTED + 1]]
    pings = [ping_row(one) for one in unread[:MOST_PINGS]]
    records = event_records([*events, *(ping.event for ping in pings)], "")
    shown, pinging = records[: len(events)], records[len(events) :]
    yours, others = waiting_rows(principal)
    yours = in_order([*yours, *map(ping_row_of, pings, pinging)])
    return render_page(
        request,
        "home",
        unread=len(unread),
        yours=yours[:SHOWN],
        yours_count=len(yours),
        others=others[:SHOWN],
        repos=repos[:REPOS],
        teams=teams,
        feed=feed_of(shown, places),
        graph=graph(activity_record({}, Key("actor_id", principal.user.pk), principal)),
    )


def welcome(request: PageRequest) -> HttpResponse:
    """What this is, how to sign in, and the public repositories."""
    rows = list_readable_repos(request.principal)
    found = page_of(request, page_number(request), rows, lambda repo: repo)
    site = SiteSettings.load()
    return render_page(request, "welcome", page=found, site=site)
