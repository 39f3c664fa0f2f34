"""`/signin`, `/signout`, `/signup`, and the admin's sign-in, which is the same."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.http import HttpResponse, HttpResponseRedirect

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.principal import ANONYMOUS
from apps.accounts.rules import check_may_join
from apps.core.access import Level
from apps.core.errors import Forbidden, NotFound
from apps.events import wake
from apps.site.kinds import RateScope
from apps.site.models import SiteSettings
from apps.web.decorators import FORM, page
from apps.web.forms import SignIn, SignUp
from apps.web.known import remember, throttle_try
from apps.web.mail import send_confirmation
from apps.web.responses import (
    PageRequest,
    ask_to_sign_in,
    named,
    own_path,
    redirect_to,
    redirect_to_path,
    secret,
    uid_in,
)

WRONG = "Wrong username or password."
"""One text for an unknown name, a wrong password and a deactivated account."""


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def signin(request: PageRequest) -> HttpResponse:
    """Who is signed in already is told so: a redirect could lead round in a circle.

    Where it leads on may have a secret in its address.
    """
    form = SignIn(request)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            throttle_try(request, form.cleaned_data["username"])
            user = authenticate(request, **form.cleaned_data)
            if user is not None:
                start_session(request, user)
                leads_on = redirect_to_path(own_path(request.POST.get("next", "")))
                return remember(request, leads_on, user)
            form.add_error(None, WRONG)
    goal = own_path(named(request, "next"))
    site = SiteSettings.load()
    return secret(form.shown(request, "signin", next=goal, site=site))


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.SIGNUP)
def signup(request: PageRequest) -> HttpResponse:
    """Open as the settings of the site say; where it is not, the page says why.

    What has changed while somebody was typing is said in the form, which keeps their text.
    """
    form, invite = SignUp(request), None
    if request.method == "POST" and not request.user.is_authenticated:
        with form.refusals():
            invite = invite_of(request)
            if form.is_valid():
                wanted = {
                    name: form.cleaned_data[name] for name in ("username", "email", "password")
                }
                user = actions.sign_up(by=ANONYMOUS, invite=invite, **wanted)
                start_session(request, user)
                messages.success(request, send_confirmation(user, wanted["email"]))
                return remember(request, redirect_to("home"), user)
    else:
        invite = invite_of(request)
        check_may_join(SiteSettings.load(), invite, invite.email if invite else "")
    link = named(request, "invite")
    return secret(form.shown(request, "signup", invite=invite, link=link))


def invite_of(request: PageRequest) -> Invite | None:
    """The invite that the link or the form names; None where it names none. 404."""
    text = named(request, "invite")
    if not text:
        return None
    invite = Invite.objects.not_deleted().filter(uuid=uid_in(text)).first()
    if invite is None:
        raise NotFound("not_found", "This invite does not exist.")
    return invite


def start_session(request: PageRequest, user: User) -> None:
    """Sign in, under a new key whoever was signed in before."""
    end_session(request)
    login(request, user)


def end_session(request: PageRequest) -> None:
    """End the session, if there is one, and the live streams that it has opened."""
    person = request.principal.person_id
    logout(request)
    if person is not None:
        wake.notify_on_commit(person)


@page(Level.PUBLIC, methods=("POST",))
def signout(request: PageRequest) -> HttpResponse:
    """End this session; the browser forgets files and pages that it has stored.

    It keeps drafts (`"storage"`): they belong to an account, and are there at the next sign-in.
    """
    end_session(request)
    response = redirect_to("home")
    response["Clear-Site-Data"] = '"cache"'
    return response


@page(Level.PUBLIC)
def admin_signin(request: PageRequest) -> HttpResponse:
    """The admin redirects here whoever is not signed in, or not staff."""
    if not request.user.is_authenticated:
        return ask_to_sign_in(request)
    if not request.user.is_staff:
        raise Forbidden("staff_required", "Only staff can use the admin.")
    return HttpResponseRedirect(own_path(request.GET.get("next", "")))
