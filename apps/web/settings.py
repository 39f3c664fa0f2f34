"""`/settings`: one's own account, and the links by which an address is confirmed, and by which mail
about pings ends.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from apps.accounts import actions
from apps.accounts.models import Theme, User
from apps.accounts.principal import Principal
from apps.accounts.proofs import person_of_unsubscribe, proven_address
from apps.accounts.rules import check_email
from apps.core.access import Level
from apps.site.kinds import RateScope
from apps.web.decorators import FORM, page
from apps.web.forms import NOT_YOURS, Account, Appearance, PageForm
from apps.web.look import remember_theme, theme_of
from apps.web.mail import send_confirmation
from apps.web.responses import PageRequest, named, redirect_to, render_page, secret


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def settings(request: PageRequest) -> HttpResponse:
    """Another e-mail address takes the password: whoever reads mail there gets a new one.

    What the person has not changed on the page stays as it is, also where the page is old. The
    address is the account's once the link that is sent there was opened; none at all is so at once.
    """
    user = request.user
    known = {"display_name": user.display_name, "email": user.email, "wants_mail": user.wants_mail}
    form = Account(request, **known)
    if request.method == "POST" and form.is_valid():
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        email = changed.pop("email", user.email)
        changed.pop("current", None)
        moved = User.objects.normalize_email(email) != user.email
        if moved and not user.check_password(form.cleaned_data["current"]):
            form.add_error("current", NOT_YOURS)
        else:
            with form.refusals():
                check_email(email)
                gone = "" if moved and not email else None
                actions.update_user(by=request.principal, user=user, email=gone, **changed)
                messages.success(request, "Account saved.")
                if moved and email:
                    messages.success(request, send_confirmation(user, email))
                return redirect_to("settings")
    return form.shown(request, "settings")


@page(Level.PUBLIC, methods=FORM, throttle="users")
def appearance(request: PageRequest) -> HttpResponse:
    """Colours and shortcuts: kept with the account, and the colours in a cookie for whoever is
    signed out.
    """
    known: dict[str, Any] = {"theme": theme_of(request)}
    if request.principal.is_signed_in:
        known["has_shortcuts"] = request.user.has_shortcuts
    form = Appearance(request, **known)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            wanted = {**form.cleaned_data, "theme": Theme(form.cleaned_data["theme"])}
            if request.principal.is_signed_in:
                actions.update_user(by=request.principal, user=request.user, **wanted)
            messages.success(request, "Saved.")
            return remember_theme(redirect_to("appearance"), wanted["theme"])
    return form.shown(request, "appearance")


@page(Level.NONE, methods=FORM, throttle="users")
def confirm_email(request: PageRequest) -> HttpResponse:
    """Only the account that asked for the link can use it, so that nobody confirms another's."""
    form, proof = PageForm(request), named(request, "token")
    email = proven_address(request.user, proof)
    if request.method == "POST":
        with form.refusals():
            actions.confirm_email(by=request.principal, proof=proof)
            messages.success(request, "E-mail address confirmed.")
            return redirect_to("settings")
    return secret(form.shown(request, "confirm_email", email=email, token=proof))


@csrf_exempt
@page(Level.PUBLIC, methods=FORM)
def unsubscribe(request: PageRequest) -> HttpResponse:
    """The link in each mail about pings. It asks for no session, and so for no CSRF token either:
    a provider of mail sends the POST for its reader (RFC 8058), with nothing but the link.

    A GET changes nothing, because programs that look for harmful mail follow links.
    """
    proof = named(request, "token")
    user, done = person_of_unsubscribe(proof), request.method == "POST"
    if done:
        actions.update_user(by=Principal(user), user=user, wants_mail=False)
    return secret(render_page(request, "unsubscribe", token=proof, done=done))
