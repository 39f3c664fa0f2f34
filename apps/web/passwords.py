"""`/settings/password`, `/reset`: a new password, by the old one or by a link in a mail."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse

from apps.accounts import actions
from apps.accounts.principal import Principal
from apps.accounts.proofs import person_of_reset
from apps.core.access import Level
from apps.site.kinds import RateScope
from apps.web.decorators import FORM, page
from apps.web.forms import NOT_YOURS, AskReset, ChangePassword, TwiceForm
from apps.web.known import remember
from apps.web.mail import send_reset
from apps.web.responses import PageRequest, named, redirect_to, render_page, secret


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def password(request: PageRequest) -> HttpResponse:
    """Ends all other sessions: each holds a digest of the password that it began with."""
    form = ChangePassword(request)
    if request.method == "POST" and form.is_valid():
        if not request.user.check_password(form.cleaned_data["current"]):
            form.add_error("current", NOT_YOURS)
        elif changed(form, request.principal):
            update_session_auth_hash(request, request.user)
            messages.success(request, "Password changed. Your other sessions have ended.")
            return redirect_to("password")
    return form.shown(request, "password")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def reset(request: PageRequest) -> HttpResponse:
    """The answer is the same whether there is such an account or not."""
    form = AskReset(request)
    if request.method == "POST" and form.is_valid():
        send_reset(form.cleaned_data["email"])
        return redirect_to("reset-sent")
    return form.shown(request, "reset")


@page(Level.PUBLIC)
def reset_sent(request: PageRequest) -> HttpResponse:
    """What to do now."""
    return render_page(request, "reset_sent")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def new_password(request: PageRequest) -> HttpResponse:
    """The link from the mail works once, for three hours, and not for a deactivated account.

    Its secret stands behind the `?` and in the form: paths are logged.
    """
    proof = named(request, "token")
    user, form = person_of_reset(proof), TwiceForm(request)
    if request.method == "POST" and form.is_valid() and changed(form, Principal(user)):
        messages.success(request, "Password changed. Sign in with it.")
        return remember(request, redirect_to("signin"), user)
    return secret(form.shown(request, "new_password", token=proof))


def changed(form: TwiceForm, principal: Principal) -> bool:
    """Give the person the password in the form; where that is refused, the form says why."""
    with form.refusals():
        password = form.cleaned_data["password"]
        actions.change_password(by=principal, user=principal.user, password=password)
    return not form.errors
