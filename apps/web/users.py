"""`/users/{username}`: a person, with the repositories of theirs that one may read."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpResponse

from apps.accounts.access import UserAccess, open_user
from apps.core.access import Level
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.scopes import EventScope, Selection
from apps.events.serializers import activity_record, event_records
from apps.repos.queries import list_repos
from apps.web.decorators import check_is_shown, page
from apps.web.feed import feed_of, graph
from apps.web.responses import PageRequest, ask_to_sign_in, page_number, page_of, render_page
from apps.web.teams import same

EVENTS = 12
"""Of what they did lately."""


@page(Level.PUBLIC)
def user(request: PageRequest, username: str) -> HttpResponse:
    """Who is not signed in is shown only people with a repository that is open to all, and not
    what they did.
    """
    is_signed_in = request.principal.is_signed_in
    try:
        access = open_user(request.principal, username, needs=Level.NONE)
        check_is_shown(access)
    except Http404:
        if is_signed_in:
            raise
        return ask_to_sign_in(request)
    found = page_of(request, page_number(request), list_repos(access), same)
    beside = lately(access) if is_signed_in else {}
    return render_page(request, "user", person=access.owner, page=found, **beside)


def lately(access: UserAccess) -> dict[str, Any]:
    """What the person did, as far as the reader may read what it was about."""
    key = Key("actor_id", access.owner.pk)
    selection = Selection(access.principal, (EventScope("user", key),), frozenset())
    found = selection.page(after=0, before=PAST_ALL, size=EVENTS, newest_first=True)
    return {
        "feed": feed_of(event_records(found, "")),
        "graph": graph(activity_record({}, key, access.principal)),
    }
