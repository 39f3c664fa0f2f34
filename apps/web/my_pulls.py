"""`/pulls`: a person's pulls of all repositories, by who has to do something next."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.errors import Invalid
from apps.pulls.queries import list_ended
from apps.web.decorators import page
from apps.web.responses import PageRequest, page_number, page_of, render_page
from apps.web.waiting import MOST, ended_row, waiting_rows

SHOWS = {"you": "Waiting for you", "others": "Waiting for others", "done": "Done"}


@page(Level.NONE)
def own_pulls(request: PageRequest) -> HttpResponse:
    """`?show=you`, `others`, or `done`: those of one's own that are merged or closed."""
    show = request.GET.get("show", "you")
    if show not in SHOWS:
        raise Invalid("validation_failed", f"show: must be one of {', '.join(SHOWS)}.")
    if show == "done":
        found = page_of(request, page_number(request), list_ended(request.principal), ended_row)
    else:
        found = {"results": waiting_rows(request.principal)[show == "others"]}
    return render_page(
        request, "own_pulls", page=found, show=show, shows=[*SHOWS.items()], most=MOST
    )
