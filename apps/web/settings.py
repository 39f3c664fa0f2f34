"""`/settings`: one's own account."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse

from apps.accounts import actions
from apps.core.access import Level
from apps.site.kinds import RateScope
from apps.web.decorators import FORM, page
from apps.web.forms import NOT_YOURS, Account
from apps.web.responses import PageRequest, redirect_to


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def settings(request: PageRequest) -> HttpResponse:
    """Another e-mail address takes the password: whoever reads mail there gets a new one."""
    user = request.user
    form = Account(request, display_name=user.display_name, email=user.email)
    if request.method == "POST" and form.is_valid():
        sent = {name: form.cleaned_data[name] for name in ("display_name", "email")}
        moved = sent["email"].lower() != user.email.lower()
        if moved and not user.check_password(form.cleaned_data["current"]):
            form.add_error("current", NOT_YOURS)
        else:
            with form.refusals():
                actions.update_user(by=request.principal, user=user, **sent)
                messages.success(request, "Your account is saved.")
                return redirect_to("settings")
    return form.shown(request, "settings")
