"""`/signin`, `/signup`, `/reset` and `/settings/password`, and the sign-in of the admin."""

from __future__ import annotations

import time
from copy import copy

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare, get_random_string

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.proofs import person_of_reset
from apps.accounts.rules import (
    check_has_password,
    check_local_passwords,
    check_may_join,
    check_password,
)
from apps.accounts.second_factors import passkeys
from apps.accounts.second_factors.actions import WRONG_CODE, use_code, use_passkey
from apps.accounts.second_factors.passkeys import REFUSED
from apps.accounts.sign_ins import note_refusal, note_sign_in, note_sign_out, note_wrong_code
from apps.core.access import Level
from apps.core.errors import Forbidden, NotFound
from apps.core.locks import lock
from apps.core.requests import prolong
from apps.events import wake
from apps.site.kinds import RateScope
from apps.site.limits import throttle_account, throttle_code
from apps.site.models import SiteSettings
from apps.web.confirming import Signed, SignInCode, confirms
from apps.web.decorators import FORM, POST, page
from apps.web.forms import (
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
    keep_secret,
    parameter,
    redirect_to,
    render_page,
    safe_path,
    set_cookie,
)

WRONG = "Wrong username or password."
"""The same text for an unknown name, a wrong password and a deactivated account."""
PENDING = "pending_sign_in"
"""Key of a session in which a password was given, and a second factor is missing."""
PENDING_SECONDS = 600
BACKEND = "django.contrib.auth.backends.ModelBackend"
"""The backend that finds the people of all sessions."""
KNOWN_BROWSER = "known"
KNOWN_SALT = "guildhall.known"
KNOWN_SECONDS = 365 * 86400
"""Seconds for which a browser is known after its last sign-in."""


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def signin(request: PageRequest) -> HttpResponse:
    """Sign in. A person who is signed in already is told, not redirected: redirects could loop."""
    form = SignIn(request)
    if form.is_valid():
        with form.refusals():
            check_local_passwords()
            # Others can use up the attempts of an account from any number of addresses, so each
            # browser in which its person has signed in before has attempts of its own.
            username = form.cleaned_data["username"]
            throttle_account(username, browser_id(request, username))
            user = authenticate(request, **form.cleaned_data)
            goal = safe_path(request.POST.get("next", ""))
            if isinstance(user, User) and user.has_second_factor:
                return ask_for_code(request, user, goal)
            if user is not None and start_session(request, user):
                redirect = redirect_to(goal)
                return remember_browser(request, redirect, user)
            note_refusal(username)
            form.add_error(None, WRONG)
    goal = safe_path(parameter(request, "next"))
    site = SiteSettings.load()
    return keep_secret(form.render_page(request, "signin", next=goal, site=site))


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.SIGNUP)
def signup(request: PageRequest) -> HttpResponse:
    """Sign up, if the settings of the site allow it; or else say why not."""
    form, invite = SignUp(request), None
    if request.method == "POST" and not request.user.is_authenticated:
        with form.refusals():
            check_local_passwords()
            invite = find_invite(parameter(request, "invite"))
            if form.is_valid():
                values = {**form.cleaned_data}
                del values["again"]
                user = actions.sign_up(principal=ANONYMOUS, invite=invite, **values)
                start_session(request, user)
                messages.success(request, send_confirmation(user, values["email"]))
                return remember_browser(request, redirect_to("home"), user)
    else:
        invite = find_invite(parameter(request, "invite"))
        check_may_join(SiteSettings.load(), invite, invite.email if invite else "")
    link = parameter(request, "invite")
    return keep_secret(form.render_page(request, "signup", invite=invite, link=link))


def find_invite(text: str) -> Invite | None:
    """The invite of `?invite=`, in the link or in the form; None without one. 404."""
    if not text:
        return None
    try:
        return Invite.objects.not_deleted().get(uuid=text)
    except (Invite.DoesNotExist, ValidationError):
        raise NotFound("not_found", "This invite does not exist.") from None


def start_session(request: PageRequest, user: User) -> bool:
    """Sign in with a new session key, even if another person was signed in before.

    The caller has checked a second factor if `user` has one. False if the account was closed, or
    got another password or a second factor, after `user` was read. Locks the person, so that an
    action that ends all sessions ends this one, or it does not begin.
    """
    end_session(request)
    with transaction.atomic():
        lock(current := copy(user))
        if not current.is_active or current.password != user.password:
            return False
        if current.has_second_factor and not user.has_second_factor:
            return False
        # Whichever backend has found the person: sessions last longer than its setting.
        login(request, user, backend=BACKEND)
        prolong(request, user)
        note_sign_in(user)
    return True


def ask_for_code(request: PageRequest, user: User, goal: str) -> HttpResponse:
    """Redirect to the second page of signing in. Nobody is signed in yet: a new session says for
    `PENDING_SECONDS` who has given their password, and where they go next.
    """
    end_session(request)
    request.session[PENDING] = {
        "user": user.pk,
        "hash": user.get_session_auth_hash(),
        "until": time.time() + PENDING_SECONDS,
        "next": goal,
    }
    return redirect_to("signin-code")


def pending_user(request: PageRequest) -> User | None:
    """The person who has given their password in this session and nothing else; None if that was
    long ago, or if their password or their sessions have ended since.
    """
    pending = request.session.get(PENDING, {})
    if pending.get("until", 0) < time.time():
        return None
    user = User.objects.filter(pk=pending["user"], is_active=True).first()
    if user is None or not constant_time_compare(pending["hash"], user.get_session_auth_hash()):
        return None
    return user


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def signin_code(request: PageRequest) -> HttpResponse:
    """The second page of signing in: a code of the authenticator app, or a recovery code."""
    user = pending_user(request)
    if user is None:
        return redirect_to("signin")
    pending, signed = request.session[PENDING], Signed(request)
    form = SignInCode(request, unbound=signed.is_valid())
    if signed.is_valid():
        # Each challenge is used once: the next page has another.
        challenge = pending.pop("challenge", "")
        credential = signed.cleaned_data["credential"]
        is_right = use_passkey(
            principal=Principal(user), credential=credential, challenge=challenge
        )
        if is_right and start_session(request, user):
            return remember_browser(request, redirect_to(pending["next"]), user, is_verified=True)
        note_wrong_code(user)
        messages.error(request, REFUSED)
    elif form.is_valid():
        with form.refusals():
            throttle_code(user, browser_id(request, user.username, verified=True))
            is_right = use_code(principal=Principal(user), code=form.cleaned_data["code"])
            if is_right and start_session(request, user):
                return remember_browser(
                    request, redirect_to(pending["next"]), user, is_verified=True
                )
            note_wrong_code(user)
            form.add_error("code", WRONG_CODE)
    ceremony = passkeys.request(user)
    if ceremony is not None:
        request.session[PENDING] = {**pending, "challenge": ceremony.challenge}
    context = {"person": user, "options": ceremony and ceremony.options}
    return keep_secret(form.render_page(request, "signin_code", **context))


def end_session(request: PageRequest) -> None:
    """End the session, if there is one, and its live streams."""
    person = request.principal.person
    logout(request)
    if person is not None:
        wake.notify_on_commit(person.pk)
        note_sign_out(person)


@page(Level.PUBLIC, methods=POST)
def signout(request: PageRequest) -> HttpResponse:
    """End the session. The browser clears its cache but not its drafts (`"storage"`)."""
    end_session(request)
    response = redirect_to("home")
    response["Clear-Site-Data"] = '"cache"'
    return response


@page(Level.PUBLIC)
def admin_signin(request: PageRequest) -> HttpResponse:
    """The sign-in of the admin: the admin redirects people here who may not use it."""
    if not request.user.is_authenticated:
        return ask_to_sign_in(request)
    if not request.user.is_staff:
        raise Forbidden("staff_required", "Only staff can use the admin.")
    return HttpResponseRedirect(safe_path(request.GET.get("next", "")))


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def password(request: PageRequest) -> HttpResponse:
    """Change the password. It ends all other sessions: each has a hash of the old password."""
    check_has_password(request.user)
    form = ChangePassword(request)
    if form.is_valid():
        with form.refusals():  # first, so that a weak password uses no code up
            check_password(form.cleaned_data["password"], request.user)
        if not form.errors and confirms(request, form) and set_password(form, request.principal):
            update_session_auth_hash(request, request.user)
            return redirect_to(
                "password", request, "Password changed. Your other sessions have ended."
            )
    return form.render_page(request, "password")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def reset(request: PageRequest) -> HttpResponse:
    """Send a link to reset the password. The response is the same if no account has the address."""
    check_local_passwords()
    form = PasswordReset(request)
    if form.is_valid():
        send_reset(form.cleaned_data["email"])
        return redirect_to("reset-sent")
    return form.render_page(request, "reset")


@page(Level.PUBLIC)
def reset_sent(request: PageRequest) -> HttpResponse:
    return render_page(request, "reset_sent")


@page(Level.PUBLIC, methods=FORM, throttle=RateScope.LOGIN)
def new_password(request: PageRequest) -> HttpResponse:
    """Set a new password by the link in a mail, which works once, within three hours, for an active
    account.

    The secret is in the query and in the form, never in the path: paths are logged.
    """
    check_local_passwords()
    proof = parameter(request, "token")
    user, form = person_of_reset(proof), NewPassword(request)
    if form.is_valid() and set_password(form, Principal(user)):
        messages.success(request, "Password changed. Sign in with it.")
        return remember_browser(request, redirect_to("signin"), user)
    return keep_secret(form.render_page(request, "new_password", token=proof))


def set_password(form: NewPassword, principal: Principal) -> bool:
    """Set the password of the form; False if it was refused, then the form has the reason."""
    with form.refusals():
        password = form.cleaned_data["password"]
        actions.change_password(principal=principal, user=principal.user, password=password)
    return not form.errors


def remember_browser(
    request: HttpRequest, response: HttpResponse, user: User, *, is_verified: bool = False
) -> HttpResponse:
    """Set the cookie that makes this browser known for the account; `is_verified` if the person has
    used a second factor in it.
    """
    mark, was_verified = _known_browser(request, user.username)
    values = [user.username_key, mark or get_random_string(16), is_verified or was_verified]
    value = signing.dumps(values, salt=KNOWN_SALT)
    set_cookie(response, KNOWN_BROWSER, value, KNOWN_SECONDS, path=reverse("signin"))
    return response


def browser_id(request: HttpRequest, username: str, *, verified: bool = False) -> str:
    """The id of a browser in which the account was signed in before; "" for any other browser.

    With `verified`, only if a second factor was used there: a link of a password reset makes
    browsers known as well.
    """
    mark, is_verified = _known_browser(request, username)
    return mark if is_verified or not verified else ""


def _known_browser(request: HttpRequest, username: str) -> tuple[str, bool]:
    """The id of the browser, and whether a second factor was used in it; "" if it is not known."""
    try:
        name, mark, *verified = signing.loads(
            request.COOKIES.get(KNOWN_BROWSER, ""), salt=KNOWN_SALT, max_age=KNOWN_SECONDS
        )
    except signing.BadSignature:
        return "", False
    return (str(mark), verified == [True]) if name == username.lower() else ("", False)
