"""`/users/{username}`: a person with their repositories; `/avatars/…`: faces as pictures."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse

from apps.accounts.access import UserAccess, open_user
from apps.core.access import Level
from apps.events.activity import activity_record
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.scopes import EventScope, Selection
from apps.events.serializers import event_records
from apps.repos.queries import list_repos
from apps.web.activity import feed_context, graph
from apps.web.decorators import check_has_public_repo, page
from apps.web.responses import PageRequest, ask_to_sign_in, page_number, page_of, render_page
from apps.web.templatetags.pictures import picture

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
        check_has_public_repo(access)
    except Http404:
        if is_signed_in:
            raise
        return ask_to_sign_in(request)
    page = page_of(request, page_number(request), list_repos(access))
    beside = lately(access) if is_signed_in else {}
    return render_page(request, "user", person=access.owner, page=page, **beside)


def lately(access: UserAccess) -> dict[str, Any]:
    """What the person did, as far as the reader may read what it was about."""
    key = Key("actor_id", access.owner.pk)
    selection = Selection(access.principal, (EventScope("user", key),), frozenset())
    events = selection.find(after=0, before=PAST_ALL, size=EVENTS, newest_first=True)
    return {
        "feed": feed_context(event_records(events, "")),
        "graph": graph(activity_record({}, key, access.principal)),
    }


YEAR = 365 * 86400


@page(Level.PUBLIC)
def avatar(request: PageRequest, uid: UUID) -> HttpResponse:
    """It follows from the uuid alone, so it never changes, and tells nothing of whether there is
    somebody of that uuid.
    """
    response = HttpResponse(picture(uid), content_type="image/svg+xml")
    response["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response
