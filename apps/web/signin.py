"""`/signin`, `/signout`, and the admin's way in, which is the same."""

from __future__ import annotations

from django.contrib.auth import authenticate, login, logout
from django.http import HttpResponse, HttpResponseRedirect

from apps.core.access import Level
from apps.core.errors import Forbidden
from apps.web.answers import Visit, ask_to_sign_in, own_path, see, see_path, show
from apps.web.door import FORM, page
from apps.web.forms import SignIn

WRONG = "Username or password is wrong."
"""One text for an unknown name, a wrong password and a deactivated account."""


@page(Level.PUBLIC, methods=FORM, charge="login")
def signin(request: Visit) -> HttpResponse:
    """Who is signed in already is told so: a redirect could lead round in a circle."""
    form = SignIn(request)
    if request.method == "POST" and form.is_valid():
        user = authenticate(request, **form.cleaned_data)
        if user is not None:
            request.session.flush()  # a new key, whoever was signed in before
            login(request, user)
            return see_path(own_path(request.POST.get("next", "")))
        form.add_error(None, WRONG)
    goal = request.POST.get("next") or request.GET.get("next", "")
    return show(request, "signin", form=form, next=own_path(goal), status=form.status)


@page(Level.PUBLIC, methods=("POST",))
def signout(request: Visit) -> HttpResponse:
    """End this session."""
    logout(request)
    return see("home")


@page(Level.PUBLIC)
def admin_signin(request: Visit) -> HttpResponse:
    """The admin sends here whom it does not let in: nobody known, or nobody of its staff."""
    if not request.user.is_authenticated:
        return ask_to_sign_in(request)
    if not request.user.is_staff:
        raise Forbidden("staff_required", "Only staff works here.")
    return HttpResponseRedirect(own_path(request.GET.get("next", "")))
