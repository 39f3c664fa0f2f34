"""`/inbox`: what pings a person, and that they have seen it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse

from apps.core.access import Level
from apps.events import actions
from apps.events.queries import list_pings, ping_row, ping_values
from apps.events.serializers import event_records
from apps.web.decorators import page
from apps.web.responses import (
    PageRequest,
    named,
    own_path,
    page_number,
    page_of,
    redirect_to_path,
    render_page,
)
from apps.web.waiting import ping_row_of

POST = ("POST",)


@page(Level.NONE)
def inbox(request: PageRequest) -> HttpResponse:
    """The newest first: those that have not been read, or all with `?unread=false`."""
    unread = request.GET.get("unread") != "false"
    rows = ping_values(list_pings(request.principal, unread=unread))
    found = page_of(request, page_number(request), rows, ping_row)
    records = event_records([ping.event for ping in found["results"]], "")
    found["results"] = [*map(ping_row_of, found["results"], records)]
    return render_page(request, "inbox", page=found, unread_only=unread)


@page(Level.NONE, methods=POST, throttle="pings")
def read_ping(request: PageRequest, uid: str) -> HttpResponse:
    """Mark one as read, and go back to the list."""
    pings = list_pings(request.principal)
    actions.read_ping(by=request.principal, ping=get_object_or_404(pings, uuid=uid))
    return back_to_list(request)


@page(Level.NONE, methods=POST, throttle="pings")
def read_all(request: PageRequest) -> HttpResponse:
    """Mark all as read that the list shows, on whatever page of it."""
    actions.read_all_pings(by=request.principal)
    messages.success(request, "All pings marked as read.")
    return back_to_list(request)


def back_to_list(request: PageRequest) -> HttpResponse:
    """303 to the list as it was."""
    path = own_path(named(request, "next"))
    inbox = reverse("inbox")
    return redirect_to_path(path if path.partition("?")[0] == inbox else inbox)
