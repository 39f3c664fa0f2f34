"""`/signin/openid` and `/settings/sign-in`: signing in by OpenID Connect, and linked identities.

`routes` imports this module only if there is an `OIDC_ISSUER` (docs/single-sign-on.md).
"""

from __future__ import annotations

import logging
import time
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.crypto import constant_time_compare
from mozilla_django_oidc.views import (
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
)

from apps.accounts.models import User
from apps.accounts.openid import actions
from apps.accounts.openid.backend import (
    CALLBACK,
    CLAIMS,
    callback_url,
    current_provider,
    library_setting,
)
from apps.accounts.openid.provider import SignInRefused
from apps.accounts.openid.tokens import LEEWAY, Claims
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.rules import check_has_password
from apps.accounts.sign_ins import note_refusal, note_refused_answer
from apps.core.access import Level
from apps.site.kinds import RateScope
from apps.site.limits import throttle_page
from apps.teams.actions import set_members_by_group
from apps.teams.models import Role
from apps.web.confirming import CONFIRMED_AT, CONFIRMED_SECONDS, confirms
from apps.web.decorators import FORM, View, page
from apps.web.forms import ConfirmedForm
from apps.web.responses import (
    PageRequest,
    keep_secret,
    parameter,
    redirect_to,
    render_page,
    safe_path,
)
from apps.web.signin import ask_for_code, find_invite, remember_browser, start_session

logger = logging.getLogger(__name__)
FLOWS = "openid_flows"
"""Key of a session for the sign-ins that it has begun at the provider, by their `state`."""
FLOW_SECONDS = 600
MOST_FLOWS = 5
"""Most sign-ins that one browser may have begun; the oldest are dropped."""
LINKING = "openid_linking"
"""Key of a session for the time until which a person who has confirmed may link an identity."""
SIGN_IN, LINK, CONFIRM = "sign-in", "link", "confirm"
LOST = "This sign-in has expired, was used already, or was begun in another browser. Begin again."
CLOSED = "Your account here has been deactivated. Ask the staff of this site."
OTHER_SITE = "The answer is not from the provider of this site. Begin again."
NOT_SIGNED_IN = "The provider has not signed you in. Begin again."
REFUSALS = {
    "access_denied": "The provider has refused to sign you in, or you have cancelled it.",
    "login_required": NOT_SIGNED_IN,
    "interaction_required": NOT_SIGNED_IN,
    "temporarily_unavailable": "The provider is busy. Try again in a moment.",
}
"""Texts for errors that the provider sends by the browser. Its own texts are not shown."""
FAILED = "The provider reports an error. Tell the staff of this site."


class Flow(NamedTuple):
    """A sign-in that was begun. It is stored in the session as a list."""

    purpose: str
    until: float
    goal: str
    """The path to go to afterwards."""
    invite: str
    person: int | None
    """The id of the person who was signed in."""


def refusals_are_pages(view: View) -> View:
    """Show `SignInRefused` as a page, and log its reason."""

    @wraps(view)
    def run(request: PageRequest, *args: Any, **kwargs: Any) -> Any:
        try:
            return view(request, *args, **kwargs)
        except SignInRefused as refusal:
            logger.warning("OpenID sign-in refused: %s", refusal.reason)
            text = refusal.text
            return keep_secret(
                render_page(request, "openid_refused", status=refusal.status, text=text)
            )

    return run


class StartView(OIDCAuthenticationRequestView):
    """Makes state, nonce and PKCE verifier, stores them in the session, and redirects."""

    get_settings = staticmethod(library_setting)

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        """Our own address by the settings: the host of a request is chosen by its sender."""
        confirms = parameter(request, "purpose") == CONFIRM
        again = {"max_age": str(CONFIRMED_SECONDS)} if confirms else {}
        return {"redirect_uri": callback_url(), **again}


class CallbackView(OIDCAuthenticationCallbackView):
    """Takes state, nonce and verifier out of the session, and exchanges the code. The page goes on
    from the account that it finds.
    """

    get_settings = staticmethod(library_setting)
    user: User | None = None

    def login_success(self) -> HttpResponse:
        return HttpResponse()

    def login_failure(self) -> HttpResponse:
        return HttpResponse()


@page(Level.PUBLIC)
@refusals_are_pages
def start(request: PageRequest) -> HttpResponse:
    """Redirect to the provider. A GET, because its `form-action` would forbid the redirect of a
    form. It changes nothing but the visitor's own session.
    """
    throttle_page(request, RateScope.LOGIN)
    purpose = parameter(request, "purpose") or SIGN_IN
    signed_in = request.principal.is_signed_in
    if signed_in != (purpose != SIGN_IN) or purpose not in {SIGN_IN, LINK, CONFIRM}:
        return redirect_to("signin")
    if purpose == LINK and request.session.pop(LINKING, 0) < time.time():
        return redirect_to("link-identity")
    response = StartView.as_view()(request)
    [state] = parse_qs(urlsplit(response["Location"]).query)["state"]
    flow = Flow(
        purpose=purpose,
        until=time.time() + FLOW_SECONDS,
        goal=safe_path(parameter(request, "next")),
        invite=parameter(request, "invite"),
        person=request.principal.person_id,
    )
    flows = {**request.session.get(FLOWS, {}), state: flow}
    request.session[FLOWS] = dict([*flows.items()][-MOST_FLOWS:])
    return keep_secret(response)


@page(Level.PUBLIC)
@refusals_are_pages
def callback(request: PageRequest) -> HttpResponse:
    """The page to which the provider redirects: it signs in, signs up, links or confirms."""
    throttle_page(request, RateScope.LOGIN)
    flow = take_flow(request)
    try:
        claims = claims_of_answer(request)
    except SignInRefused:
        note_refused_answer()
        raise
    if flow.purpose == LINK:
        return finish_link(request, claims)
    if flow.purpose == CONFIRM:
        return finish_confirmation(request, flow, claims)
    return finish_sign_in(request, flow, claims)


def claims_of_answer(request: PageRequest) -> Claims:
    """Exchange the code of the provider's answer, and return the claims of its token."""
    check_issuer(request)
    error = request.GET.get("error")
    if error is not None:
        raise SignInRefused(REFUSALS.get(error, FAILED), f"the provider says {error!r:.60}")
    view = CallbackView()
    view.setup(request)
    view.dispatch(request)
    claims: Claims | None = getattr(request, CLAIMS, None)
    if claims is None:
        raise SignInRefused(LOST)
    return claims


def take_flow(request: PageRequest) -> Flow:
    """The sign-in of this `state`, which is removed from the session before anything else."""
    flows = request.session.get(FLOWS, {})
    row = flows.pop(request.GET.get("state", ""), None)
    if row is None:
        raise SignInRefused(LOST)
    request.session[FLOWS] = flows
    flow = Flow(*row)
    if flow.until < time.time() or flow.person != request.principal.person_id:
        raise SignInRefused(LOST)
    return flow


def check_issuer(request: PageRequest) -> None:
    """Refuse the answer of another provider (RFC 9207)."""
    sent = request.GET.get("iss")
    if sent is None and not current_provider().metadata().names_issuer:
        return
    if not constant_time_compare(sent or "", settings.OIDC_ISSUER):
        raise SignInRefused(OTHER_SITE, "the answer names another issuer, or none")


def account_of(claims: Claims) -> User | None:
    """The account of the subject, read again: it may have changed while the provider was asked."""
    pair = {"identities__issuer": claims.issuer, "identities__subject": claims.subject}
    return User.objects.filter(**pair).first()


def finish_sign_in(request: PageRequest, flow: Flow, claims: Claims) -> HttpResponse:
    """Sign in to the account of the subject, or to a new one. A second factor is still asked."""
    user = account_of(claims)
    if user is None:
        invite = find_invite(flow.invite)
        user = actions.join(principal=ANONYMOUS, claims=claims, invite=invite)
        messages.success(request, f"Welcome. Your username is {user.username}.")
        if claims.email and not user.email:
            text = "Another account has your e-mail address. If it is yours, sign in to it with"
            messages.warning(request, f"{text} its password and link it in its settings.")
    if not user.is_active:
        note_refusal(user.username)
        raise SignInRefused(CLOSED, f"{user} is deactivated")
    actions.note_use(principal=Principal(user), claims=claims)
    follow_groups(user, claims)
    user.refresh_from_db()
    if user.has_second_factor:
        return ask_for_code(request, user, flow.goal)
    if not start_session(request, user):
        raise SignInRefused(CLOSED, f"{user} has changed meanwhile")
    request.session[CONFIRMED_AT] = claims.authenticated_at
    return remember_browser(request, redirect_to(flow.goal), user)


def follow_groups(user: User, claims: Claims) -> None:
    """Set staff and memberships by the groups of the provider."""
    group = settings.OIDC_STAFF_GROUP
    is_staff = bool(group) and group in claims.groups
    if not actions.set_staff_by_group(user=user, issuer=claims.issuer, is_staff=is_staff):
        logger.warning("%s stays staff without the group, as the last of the staff", user)
    for slug in set_members_by_group(user=user, roles=roles_of(claims.groups)):
        logger.warning("%s stays an owner of %s without the group, as the last", user, slug)


def roles_of(groups: frozenset[str]) -> dict[str, Role]:
    """The role in each team that these groups give: the highest, if several give one."""
    order = list(Role)
    roles: dict[str, Role] = {}
    for group in groups & settings.OIDC_TEAM_GROUPS.keys():
        for slug, word in settings.OIDC_TEAM_GROUPS[group]:
            roles[slug] = min(Role(word), roles.get(slug, Role.VIEWER), key=order.index)
    return roles


def finish_link(request: PageRequest, claims: Claims) -> HttpResponse:
    actions.link_identity(principal=request.principal, claims=claims)
    return redirect_to("identities", request, "Linked. It signs you in from now on.")


def finish_confirmation(request: PageRequest, flow: Flow, claims: Claims) -> HttpResponse:
    """Note that the person has just signed in at the provider, in place of a password."""
    user = account_of(claims)
    if user is None or user.pk != request.user.pk:
        raise SignInRefused("You have signed in at the provider as somebody else.")
    if claims.authenticated_at < time.time() - CONFIRMED_SECONDS - LEEWAY:
        raise SignInRefused(NOT_SIGNED_IN, "auth_time is missing or too long ago")
    request.session[CONFIRMED_AT] = time.time()
    return redirect_to(flow.goal, request, "Confirmed. You can send the form now.")


@page(Level.NONE)
def identities(request: PageRequest) -> HttpResponse:
    """The person's identity at the provider, and those of earlier providers."""
    rows = request.user.identities.order_by("pk")
    is_linked = any(row.issuer == settings.OIDC_ISSUER for row in rows)
    return render_page(request, "identities", identities=rows, is_linked=is_linked)


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def link_identity(request: PageRequest) -> HttpResponse:
    """Ask for the password, then lead to the provider."""
    form = ConfirmedForm(request)
    if form.is_valid() and confirms(request, form):
        request.session[LINKING] = time.time() + FLOW_SECONDS
        return form.render_page(request, "link_identity", is_confirmed=True)
    return form.render_page(request, "link_identity")


@page(Level.NONE, methods=FORM, throttle=RateScope.LOGIN)
def unlink_identity(request: PageRequest, uid: UUID) -> HttpResponse:
    """Unlink an identity, and take the rights that its groups gave. A GET asks for the password."""
    identity = get_object_or_404(request.user.identities, uuid=uid)
    check_has_password(request.user)
    form = ConfirmedForm(request)
    if form.is_valid() and confirms(request, form):
        with form.refusals():
            set_members_by_group(user=request.user, roles={})
            actions.unlink_identity(principal=request.principal, identity=identity)
            return redirect_to("identities", request, "Unlinked.")
    return form.render_page(request, "unlink_identity", identity=identity)


def routes() -> list[URLPattern]:
    """The pages of this module. A function, because its caller has registered the converters."""
    return [
        path("signin/openid", start, name="openid-signin"),
        path("signin/openid/callback", callback, name=CALLBACK),
        path("settings/sign-in", identities, name="identities"),
        path("settings/sign-in/link", link_identity, name="link-identity"),
        path("settings/sign-in/<uid:uid>/remove", unlink_identity, name="unlink-identity"),
    ]
