"""`/settings/tokens`: one's own API tokens, made and revoked. The text of one is shown once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts import actions
from apps.accounts.models import ApiToken
from apps.accounts.queries import list_tokens
from apps.accounts.rules import token_status
from apps.core.access import Level
from apps.web.decorators import FORM, page
from apps.web.forms import NewToken
from apps.web.responses import PageRequest, page_number, page_of, redirect_to, render_page, secret


@page(Level.NONE, methods=FORM, throttle="api-tokens")
def tokens(request: PageRequest) -> HttpResponse:
    """Shows a new token in the answer to the POST: its text is kept nowhere to redirect to."""
    number, form, text = page_number(request), NewToken(request), ""
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            _, text = actions.create_token(
                by=request.principal, owner=request.user, **form.cleaned_data
            )
    shown = page_of(request, number, list_tokens(request.user), token_row)
    answer = render_page(
        request,
        "tokens",
        status=201 if text else form.status_code,
        form=NewToken(request, again=True) if text else form,
        made=form.cleaned_data["name"] if text else "",
        text=text,
        page=shown,
    )
    return secret(answer)


@page(Level.NONE, methods=FORM, throttle="api-tokens")
def revoke_token(request: PageRequest, uid: UUID) -> HttpResponse:
    """Asks first: a revoked token never works again."""
    token = get_object_or_404(list_tokens(request.user), uuid=uid)
    if request.method == "POST":
        actions.revoke_token(by=request.principal, token=token)
        messages.success(request, f"Token {token.name} revoked.")
        return redirect_to("tokens")
    return render_page(request, "revoke_token", **token_row(token))


def token_row(token: ApiToken) -> dict[str, Any]:
    """What the list shows of a token."""
    return {"token": token, "state": token_status(token)}
