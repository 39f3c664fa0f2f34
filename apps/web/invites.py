"""`/settings/invites`: links by which others sign up; for staff or everybody, as the site says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts import actions
from apps.accounts.models import Invite, InviteQuerySet, InviteStatus
from apps.accounts.queries import list_invites
from apps.accounts.rules import check_invites_open
from apps.core.access import Level
from apps.core.views import site_url
from apps.web.decorators import FORM, page
from apps.web.forms import NewInvite
from apps.web.responses import PageRequest, page_number, page_of, redirect_to, render_page, secret


@page(Level.NONE, methods=FORM, throttle="signup-invites")
def invites(request: PageRequest) -> HttpResponse:
    """One's own invites, with their links; staff finds those of others in the admin."""
    check_invites_open(request.principal)
    form = NewInvite(request)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            actions.create_invite(by=request.principal, **form.cleaned_data)
            messages.success(request, "Invite created. Copy its link and send it.")
            return redirect_to("invites")
    rows = own_invites(request)
    shown = page_of(request, page_number(request), rows, invite_row)
    return secret(form.shown(request, "invites", page=shown))


@page(Level.NONE, methods=FORM, throttle="signup-invites")
def delete_invite(request: PageRequest, uid: UUID) -> HttpResponse:
    """Asks first: its link never works again. The address holds what the link does."""
    check_invites_open(request.principal)
    invite = get_object_or_404(own_invites(request), uuid=uid)
    if request.method == "POST":
        actions.delete_invite(by=request.principal, invite=invite)
        messages.success(request, "Invite deleted.")
        return redirect_to("invites")
    return secret(render_page(request, "delete_invite", invite=invite))


def own_invites(request: PageRequest) -> InviteQuerySet:
    """Those that the person has made, without the deleted ones."""
    return list_invites(request.principal).filter(created_by=request.user)


def invite_row(invite: Invite) -> dict[str, Any]:
    """What the list shows of an invite; its link while it works."""
    link = invite.url(site_url()) if invite.status is InviteStatus.PENDING else ""
    return {"invite": invite, "state": invite.status, "link": link}
