"""`/signin`, `/signup`, `/reset` and `/settings/password`, and the sign-in of the admin."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import get_random_string

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.proofs import person_of_reset
from apps.accounts.rules import check_may_join
from apps.core.access import Level
from apps.core.errors import Forbidden, NotFound
from apps.events import wake
from apps.site.kinds import RateScope
from apps.site.limits import throttle_account
from apps.site.models import SiteSettings
from apps.web.decorators import FORM, POST, page
from apps.web.forms import (
    WRONG_CURRENT,
    ChangePassword,
    NewPassword,
    PasswordReset,
    SignIn,
    SignUp,
)
from apps.web.mail import send_confirmation, send_reset
from apps.web.responses import (
    PageRequest,
    ask_to_sign_in,
    keep_cookie,
    keep_secret,
    parameter,
    parse_uuid,
    redirect_to,
    redirect_to_path,
    render_page,
    safe_path,
)

WRONG = "Wrong username or password."
"""One text for an unknown name, a wrong password and a deactivated account."""
KNOWN_BROWSER = "known"
KNOWN_SALT = "guildhall.known"
KNOWN_SECONDS = 365 * 86400
"""Seconds for which a browser is known since its last sign-in."""


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def signin(request: PageRequest) -> HttpResponse:
    """Who is signed in already is told so: a redirect could lead round in a circle.

    Where it leads on may have a secret in its address.
    """
    form = SignIn(request)
    if request.method == "POST" and form.is_valid():
        with form.refusals():
            throttle_sign_in(request, form.cleaned_data["username"])
            user = authenticate(request, **form.cleaned_data)
            if user is not None:
                start_session(request, user)
                redirect = redirect_to_path(safe_path(request.POST.get("next", "")))
                return remember_browser(request, redirect, user)
            form.add_error(None, WRONG)
    goal = safe_path(parameter(request, "next"))
    site = SiteSettings.load()
    return keep_secret(form.render_page(request, "signin", next=goal, site=site))


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.SIGNUP)
def signup(request: PageRequest) -> HttpResponse:
    """Open as the settings of the site say; where it is not, the page says why.

    What has changed while somebody was typing is said in the form, which keeps their text.
    """
    form, invite = SignUp(request), None
    if request.method == "POST" and not request.user.is_authenticated:
        with form.refusals():
            invite = find_invite(request)
            if form.is_valid():
                values = {
                    name: form.cleaned_data[name] for name in ("username", "email", "password")
                }
                user = actions.sign_up(by=ANONYMOUS, invite=invite, **values)
                start_session(request, user)
                messages.success(request, send_confirmation(user, values["email"]))
                return remember_browser(request, redirect_to("home"), user)
    else:
        invite = find_invite(request)
        check_may_join(SiteSettings.load(), invite, invite.email if invite else "")
    link = parameter(request, "invite")
    return keep_secret(form.render_page(request, "signup", invite=invite, link=link))


def find_invite(request: PageRequest) -> Invite | None:
    """The invite that the link or the form names; None where it names none. 404."""
    text = parameter(request, "invite")
    if not text:
        return None
    invite = Invite.objects.alive().filter(uuid=parse_uuid(text)).first()
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


@page(Level.PUBLIC, methods=POST)
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
    return HttpResponseRedirect(safe_path(request.GET.get("next", "")))


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def password(request: PageRequest) -> HttpResponse:
    """Ends all other sessions: each holds a digest of the password that it began with."""
    form = ChangePassword(request)
    if request.method == "POST" and form.is_valid():
        if not request.user.check_password(form.cleaned_data["current"]):
            form.add_error("current", WRONG_CURRENT)
        elif set_password(form, request.principal):
            update_session_auth_hash(request, request.user)
            messages.success(request, "Password changed. Your other sessions have ended.")
            return redirect_to("password")
    return form.render_page(request, "password")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def reset(request: PageRequest) -> HttpResponse:
    """The answer is the same whether there is such an account or not."""
    form = PasswordReset(request)
    if request.method == "POST" and form.is_valid():
        send_reset(form.cleaned_data["email"])
        return redirect_to("reset-sent")
    return form.render_page(request, "reset")


@page(Level.PUBLIC)
def reset_sent(request: PageRequest) -> HttpResponse:
    """What to do now."""
    return render_page(request, "reset_sent")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def new_password(request: PageRequest) -> HttpResponse:
    """The link from the mail works once, for three hours, and not for a deactivated account.

    Its secret stands behind the `?` and in the form: paths are logged.
    """
    proof = parameter(request, "token")
    user, form = person_of_reset(proof), NewPassword(request)
    if request.method == "POST" and form.is_valid() and set_password(form, Principal(user)):
        messages.success(request, "Password changed. Sign in with it.")
        return remember_browser(request, redirect_to("signin"), user)
    return keep_secret(form.render_page(request, "new_password", token=proof))


def set_password(form: NewPassword, principal: Principal) -> bool:
    """Give the person the password in the form; where that is refused, the form says why."""
    with form.refusals():
        password = form.cleaned_data["password"]
        actions.change_password(by=principal, user=principal.user, password=password)
    return not form.errors


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> HttpResponse:
    """Know this browser as one of the person's from now on."""
    mark = browser_id(request, user.username) or get_random_string(16)
    value = signing.dumps([user.username_key, mark], salt=KNOWN_SALT)
    keep_cookie(response, KNOWN_BROWSER, value, KNOWN_SECONDS, path=reverse("signin"))
    return response


def throttle_sign_in(request: HttpRequest, username: str) -> None:
    """Count a try to sign in to this account, whether there is one or not; 429. Each browser that
    it knows has tries of its own.
    """
    throttle_account(username, browser_id(request, username))


def browser_id(request: HttpRequest, username: str) -> str:
    """By what this browser is told from others in which the account has been signed in to; "" for
    one in which it has not.
    """
    try:
        name, mark = signing.loads(
            request.COOKIES.get(KNOWN_BROWSER, ""), salt=KNOWN_SALT, max_age=KNOWN_SECONDS
        )
    except signing.BadSignature:
        return ""
    return str(mark) if name == username.lower() else ""
