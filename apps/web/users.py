"""`/users/{username}`: a person, with the repositories of theirs that one may read."""

from __future__ import annotations

from django.http import HttpResponse

from apps.accounts.access import open_user
from apps.core.access import Level
from apps.repos.queries import list_repos
from apps.web.decorators import page
from apps.web.responses import PageRequest, ask_to_sign_in, page_number, page_of, render_page
from apps.web.teams import same


@page(Level.PUBLIC)
def user(request: PageRequest, username: str) -> HttpResponse:
    """Who is not signed in is shown only people with a repository that is open to all."""
    access = open_user(request.principal, username, needs=Level.NONE)
    found = page_of(request, page_number(request), list_repos(access), same)
    if not (request.principal.is_signed_in or found["results"]):
        return ask_to_sign_in(request)
    return render_page(request, "user", person=access.owner, page=found)
