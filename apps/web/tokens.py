"""`/settings/tokens`: one's own API tokens, made and revoked. The text of one is shown once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts import actions
from apps.accounts.models import ApiToken, ApiTokenQuerySet
from apps.accounts.rules import ORDERINGS, token_status
from apps.core.access import Level
from apps.core.pagination import page_of
from apps.core.parsers import PAGE
from apps.web.answers import Visit, secret, see, show
from apps.web.door import FORM, page
from apps.web.forms import NewToken

ROWS = 50
"""Tokens on one page."""


@page(Level.NONE, methods=FORM)
def tokens(request: Visit) -> HttpResponse:
    """The answer to a POST shows the new token itself: its text is kept nowhere, so that no
    redirect could lead to it; and no cache may hold it.
    """
    number, form, text = PAGE.value(request), NewToken(request), ""
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            _, text = actions.create_token(
                actor=request.user, owner=request.user, **form.cleaned_data
            )
    answer = show(
        request,
        "tokens",
        status=201 if text else form.status,
        form=NewToken(request, again=True) if text else form,
        made=form.cleaned_data["name"] if text else "",
        text=text,
        page=page_of(
            own_tokens(request).in_order(ORDERINGS[0]),
            token_row,
            request=request,
            base="",
            page=number,
            per_page=ROWS,
        ),
    )
    return secret(answer)


@page(Level.NONE, methods=FORM)
def revoke_token(request: Visit, uid: UUID) -> HttpResponse:
    """Asks first: a revoked token never works again."""
    token = get_object_or_404(own_tokens(request).select_related("user"), uuid=uid)
    if request.method == "POST":
        actions.revoke_token(actor=request.user, token=token)
        messages.success(request, f"The token {token.name} is revoked.")
        return see("tokens")
    return show(request, "revoke_token", **token_row(token))


def own_tokens(request: Visit) -> ApiTokenQuerySet:
    """Those of the person alone: staff handles others' in the admin."""
    return ApiToken.objects.visible_to(request.user).filter(user=request.user)


def token_row(token: ApiToken) -> dict[str, Any]:
    """What the list shows of a token."""
    return {"token": token, "state": token_status(token)}
