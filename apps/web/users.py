"""`/users/{username}`: a person with their repositories; `/avatars/…`: avatars as SVG."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse

from apps.accounts.access import UserAccess
from apps.core.access import Level
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.scopes import EventScope, Selection
from apps.events.serializers import activity_record, event_records
from apps.repos.queries import list_repos
from apps.web.activity import feed_context, graph
from apps.web.decorators import page, user_page
from apps.web.responses import PageRequest, page_of, render_page
from apps.web.templatetags.pictures import picture

EVENTS = 12
"""Events in the list of latest activity."""


@user_page()
def user(request: PageRequest, access: UserAccess) -> HttpResponse:
    """A person. Anonymous people see no activity."""
    page = page_of(request, list_repos(access))
    beside = latest_activity(access) if request.principal.is_signed_in else {}
    return render_page(request, "user", person=access.owner, page=page, **beside)


def latest_activity(access: UserAccess) -> dict[str, Any]:
    """The latest events of a person, and their chart, as far as the caller may read them."""
    key = Key("actor_id", access.owner.pk)
    selection = Selection(access.principal, (EventScope("user", key),), frozenset())
    events = selection.page(after=0, before=PAST_ALL, size=EVENTS, newest_first=True)
    return {
        "feed": feed_context(event_records(events, "")),
        "graph": graph(activity_record({}, key, access.principal)),
    }


YEAR = 365 * 86400


@page(Level.PUBLIC)
def avatar(request: PageRequest, uid: UUID) -> HttpResponse:
    """The avatar of a uuid. It is computed from the uuid alone: it never changes, and does not
    reveal whether a person or team has that uuid.
    """
    response = HttpResponse(picture(uid), content_type="image/svg+xml")
    response["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response
