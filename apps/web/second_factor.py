"""`/settings/second-factor`: authenticator app, recovery codes and passkeys of a person."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from apps.accounts.second_factors import actions
from apps.accounts.second_factors.codes import app_link, key_text, new_key, qr_code
from apps.accounts.second_factors.passkeys import creation
from apps.core.access import Level
from apps.site.kinds import RateScope
from apps.web.confirming import NewAuthenticator, NewPasskey, Signed, confirms
from apps.web.decorators import FORM, POST, page
from apps.web.forms import ConfirmedForm
from apps.web.responses import PageRequest, keep_secret, redirect_to, render_page

PASSKEY = "new_passkey"
"""Key of a session for the name and the challenge of a passkey that the browser creates."""
NEW_KEY = "new_authenticator"
"""Key of a session for the key of an app that is not confirmed yet."""


@page(Level.NONE)
def second_factor(request: PageRequest) -> HttpResponse:
    """Whether the person has a second factor, and its parts."""
    user = request.user
    context: dict[str, Any] = {}
    if user.has_second_factor:
        passkeys = user.passkeys.order_by("pk")
        context = {"codes": user.recovery_codes.count(), "passkeys": passkeys}
    return render_page(request, "second_factor", **context)


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def add_authenticator(request: PageRequest) -> HttpResponse:
    """Add an authenticator app. The session has its key until a code of it is given; the response
    to that shows the recovery codes.
    """
    if request.user.has_second_factor:
        return redirect_to("second-factor")
    key = request.session.get(NEW_KEY)
    if key is None or request.method != "POST":
        key = request.session[NEW_KEY] = new_key()
    form = NewAuthenticator(request)
    if form.is_valid() and confirms(request, form):
        with form.refusals():
            code = form.cleaned_data["code"]
            codes = actions.turn_on(principal=request.principal, key=key, code=code)
            del request.session[NEW_KEY]
            update_session_auth_hash(request, request.user)
            return show_codes(request, codes)
    context = {"key": key_text(key), "picture": qr_code(app_link(request.user, key))}
    return keep_secret(form.render_page(request, "add_authenticator", **context))


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def new_recovery_codes(request: PageRequest) -> HttpResponse:
    """Replace the recovery codes. A GET asks for password and code; the response to the POST shows
    the new ones.
    """
    form = ConfirmedForm(request)
    if form.is_valid() and confirms(request, form):
        with form.refusals():
            return show_codes(request, actions.renew_recovery_codes(principal=request.principal))
    return form.render_page(request, "new_recovery_codes")


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def remove_authenticator(request: PageRequest) -> HttpResponse:
    """Remove the app with recovery codes and passkeys. A GET asks for password and code."""
    form = ConfirmedForm(request)
    if form.is_valid() and confirms(request, form):
        with form.refusals():
            actions.turn_off(principal=request.principal)
            return redirect_to("second-factor", request, "Your second factor is turned off.")
    return form.render_page(request, "remove_authenticator")


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def add_passkey(request: PageRequest) -> HttpResponse:
    """Add a passkey. A GET asks for a name, password and code; then the browser creates it."""
    if not request.user.has_second_factor:
        return redirect_to("second-factor")
    form = NewPasskey(request)
    if form.is_valid() and confirms(request, form):
        ceremony = creation(request.user)
        name = form.cleaned_data["name"]
        request.session[PASSKEY] = {"name": name, "challenge": ceremony.challenge}
        signed = Signed(request, unbound=True)
        return signed.render_page(request, "create_passkey", options=ceremony.options, name=name)
    return form.render_page(request, "add_passkey")


@page(Level.NONE, methods=POST, throttle="users")
def create_passkey(request: PageRequest) -> HttpResponse:
    """Store the passkey that the browser has created. Each challenge is accepted once."""
    pending, form = request.session.pop(PASSKEY, None), Signed(request)
    if pending is None or not form.is_valid():
        return redirect_to("add-passkey")
    actions.add_passkey(
        principal=request.principal, credential=form.cleaned_data["credential"], **pending
    )
    return redirect_to("second-factor", request, f"Passkey {pending['name']} added.")


@page(Level.NONE, methods=FORM, throttle="users")
def remove_passkey(request: PageRequest, uid: UUID) -> HttpResponse:
    """Remove a passkey. A GET asks for confirmation."""
    passkey = get_object_or_404(request.user.passkeys, uuid=uid)
    if request.method == "POST":
        actions.remove_passkey(principal=request.principal, passkey=passkey)
        return redirect_to("second-factor", request, f"Passkey {passkey} removed.")
    return render_page(request, "remove_passkey", passkey=passkey)


def show_codes(request: PageRequest, codes: list[str]) -> HttpResponse:
    """The response that shows recovery codes once."""
    return keep_secret(render_page(request, "recovery_codes", status=201, codes=codes))
