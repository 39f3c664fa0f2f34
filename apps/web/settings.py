"""`/settings`: account, appearance, sessions, tokens and invites; confirming an address, and
unsubscribing.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from apps.accounts import actions
from apps.accounts.models import (
    ApiToken,
    BrowserSession,
    Invite,
    InviteQuerySet,
    InviteStatus,
    Theme,
    User,
)
from apps.accounts.principal import Principal
from apps.accounts.proofs import person_of_unsubscribe, proven_address
from apps.accounts.queries import list_invites, list_sessions, list_tokens, load_repos
from apps.accounts.rules import check_email, check_invites_open, token_status
from apps.core.access import Level
from apps.core.views import site_url
from apps.site.kinds import RateScope
from apps.web.confirming import confirms
from apps.web.decorators import FORM, POST, page
from apps.web.forms import (
    Account,
    Appearance,
    ConfirmDeletion,
    NewInvite,
    NewToken,
    PageForm,
    RotateTokenForm,
)
from apps.web.mail import send_confirmation
from apps.web.responses import (
    THEME,
    PageRequest,
    deleted_message,
    keep_secret,
    page_number,
    page_of,
    parameter,
    redirect_to,
    render_page,
    set_cookie,
    theme_of,
)


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def account(request: PageRequest) -> HttpResponse:
    """The account. Changing the e-mail address needs the password, because mail to the address can
    reset it. A new address takes effect when the link in its mail is opened; removing it, at once.
    """
    user = request.user
    values = {"display_name": user.display_name, "email": user.email, "wants_mail": user.wants_mail}
    form = Account(request, **values)
    if form.is_valid():
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        email = changed.pop("email", user.email)
        changed.pop("current", None)
        changed.pop("code", None)
        moved = User.objects.normalize_email(email) != user.email
        if not moved or confirms(request, form):
            with form.refusals():
                check_email(email)
                gone = "" if moved and not email else None
                actions.update_user(principal=request.principal, user=user, email=gone, **changed)
                response = redirect_to("settings", request, "Account saved.")
                if moved and email:
                    messages.success(request, send_confirmation(user, email))
                return response
    return form.render_page(request, "settings")


@page(Level.NONE, methods=FORM, throttle="users")
def delete_account(request: PageRequest) -> HttpResponse:
    """Delete the account. A GET asks for the username."""
    form = ConfirmDeletion(request, name=request.user.username)
    if form.is_valid():
        with form.refusals():
            user = request.user
            deletion = actions.delete_user(
                principal=request.principal, user=user, **form.cleaned_data
            )
            logout(request)
            return redirect_to("home", request, deleted_message(deletion))
    return form.render_page(request, "delete_account")


@page(Level.PUBLIC, methods=FORM, throttle="users")
def appearance(request: PageRequest) -> HttpResponse:
    """Theme and shortcuts, in the account; the theme also in a cookie, for after signing out."""
    values: dict[str, Any] = {"theme": theme_of(request)}
    if request.principal.is_signed_in:
        values["has_shortcuts"] = request.user.has_shortcuts
    form = Appearance(request, **values)
    if form.is_valid():
        with form.refusals():
            chosen = {**form.cleaned_data, "theme": Theme(form.cleaned_data["theme"])}
            if request.principal.is_signed_in:
                actions.update_user(principal=request.principal, user=request.user, **chosen)
            response = redirect_to("appearance", request, "Saved.")
            if chosen["theme"] is Theme.SYSTEM:
                response.delete_cookie(THEME, samesite="Lax")
            else:
                set_cookie(response, THEME, chosen["theme"], 365 * 86400)
            return response
    return form.render_page(request, "appearance")


@page(Level.NONE, methods=FORM, throttle="users")
def confirm_email(request: PageRequest) -> HttpResponse:
    """Confirm an e-mail address. Only the account that requested the link can use it."""
    form, proof = PageForm(request), parameter(request, "token")
    email = proven_address(request.user, proof)
    if request.method == "POST":
        with form.refusals():
            actions.confirm_email(principal=request.principal, proof=proof)
            return redirect_to("settings", request, "E-mail address confirmed.")
    return keep_secret(form.render_page(request, "confirm_email", email=email, token=proof))


@csrf_exempt
@page(Level.PUBLIC, methods=FORM)
def unsubscribe(request: PageRequest) -> HttpResponse:
    """Unsubscribe from e-mail about pings, by the link in each. It needs no session and no CSRF
    token: mail providers send the POST with nothing but the link (RFC 8058).

    A GET changes nothing, because virus scanners follow the links in mail.
    """
    proof = parameter(request, "token")
    user, done = person_of_unsubscribe(proof), request.method == "POST"
    if done:
        actions.update_user(principal=Principal(user), user=user, wants_mail=False)
    return keep_secret(render_page(request, "unsubscribe", token=proof, done=done))


@page(Level.NONE)
def sessions(request: PageRequest) -> HttpResponse:
    """The browsers in which the person is signed in."""
    current = request.session.session_key

    def row(session: BrowserSession) -> dict[str, Any]:
        return {"session": session, "is_current": session.session_id == current}

    page = page_of(request, list_sessions(request.user), row)
    return keep_secret(render_page(request, "sessions", page=page))


@page(Level.NONE, methods=POST, throttle="users")
def end_session(request: PageRequest, uid: UUID) -> HttpResponse:
    """Sign a browser out, which may be this one."""
    session = get_object_or_404(list_sessions(request.user), uuid=uid)
    actions.end_session(principal=request.principal, session=session)
    if session.session_id == request.session.session_key:
        logout(request)
        return redirect_to("signin")
    return redirect_to("sessions", request, f"{session.device} is signed out.")


@page(Level.NONE, methods=POST, throttle="users")
def end_sessions(request: PageRequest) -> HttpResponse:
    """Sign out everywhere, also in this browser."""
    actions.end_sessions(principal=request.principal, user=request.user)
    logout(request)
    return redirect_to("signin")


@page(Level.NONE, methods=FORM, throttle="api-tokens")
def tokens(request: PageRequest) -> HttpResponse:
    """The tokens. The response to the POST shows a new token: only its hash is stored."""
    number, form, text = page_number(request), NewToken(request), ""
    if form.is_valid():
        with form.refusals():
            _, text = actions.create_token(
                principal=request.principal, owner=request.user, **form.cleaned_data
            )
    page = page_of(request, list_tokens(request.user), token_row, number=number)
    load_repos([row["token"] for row in page["results"]], request.principal)
    answer = render_page(
        request,
        "tokens",
        status=201 if text else form.status_code,
        form=NewToken(request, unbound=True) if text else form,
        made=form.cleaned_data["name"] if text else "",
        text=text,
        page=page,
    )
    return keep_secret(answer)


@page(Level.NONE, methods=FORM, throttle="api-tokens")
def revoke_token(request: PageRequest, uid: UUID) -> HttpResponse:
    """Revoke a token, for good. A GET asks for confirmation."""
    token = get_object_or_404(list_tokens(request.user), uuid=uid)
    if request.method == "POST":
        actions.revoke_token(principal=request.principal, token=token)
        return redirect_to("tokens", request, f"Token {token.name} revoked.")
    return render_page(request, "revoke_token", **token_row(token))


@page(Level.NONE, methods=FORM, throttle="api-tokens")
def rotate_token(request: PageRequest, uid: UUID) -> HttpResponse:
    """Give a token a new text, which only the response to the POST shows."""
    token, text = get_object_or_404(list_tokens(request.user), uuid=uid), ""
    form = RotateTokenForm(request)
    if form.is_valid():
        with form.refusals():
            text = actions.rotate_token(
                principal=request.principal, token=token, **form.cleaned_data
            )
    status = 201 if text else form.status_code
    row = token_row(token)
    answer = render_page(request, "rotate_token", status=status, form=form, text=text, **row)
    return keep_secret(answer)


POWERS = {
    "read": "reads",
    "write": "reads and writes",
    "admin": "does everything that you may do",
}
"""The permissions of tokens as verbs."""


def token_row(token: ApiToken) -> dict[str, Any]:
    """A token, its state, its powers in words, and the end of its old text if that is valid."""
    ends = token.former_until
    old_until = ends if ends is not None and ends > timezone.now() else None
    return {
        "token": token,
        "state": token_status(token),
        "powers": POWERS[token.permission],
        "old_until": old_until,
    }


@page(Level.NONE, methods=FORM, throttle="signup-invites")
def invites(request: PageRequest) -> HttpResponse:
    """The person's invites with their links; staff sees those of others in the admin."""
    check_invites_open(request.principal)
    form = NewInvite(request)
    if form.is_valid():
        with form.refusals():
            actions.create_invite(principal=request.principal, **form.cleaned_data)
            return redirect_to("invites", request, "Invite created. Copy its link and send it.")
    page = page_of(request, own_invites(request), invite_row)
    return keep_secret(form.render_page(request, "invites", page=page))


@page(Level.NONE, methods=FORM, throttle="signup-invites")
def delete_invite(request: PageRequest, uid: UUID) -> HttpResponse:
    """Delete an invite, for good. A GET asks for confirmation. Its address has the secret."""
    check_invites_open(request.principal)
    invite = get_object_or_404(own_invites(request), uuid=uid)
    if request.method == "POST":
        actions.delete_invite(principal=request.principal, invite=invite)
        return redirect_to("invites", request, "Invite deleted.")
    return keep_secret(render_page(request, "delete_invite", invite=invite))


def own_invites(request: PageRequest) -> InviteQuerySet:
    return list_invites(request.principal).filter(created_by=request.user)


def invite_row(invite: Invite) -> dict[str, Any]:
    """An item of the list of invites, with the link while it is pending."""
    link = invite.url(site_url()) if invite.status is InviteStatus.PENDING else ""
    return {"invite": invite, "state": invite.status, "link": link}
