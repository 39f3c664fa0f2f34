"""`@page`: every page passes the same steps in the same order, as in the API.

Method 405; signed in, else 302 to sign-in, or 401 for a POST; rate limit 429; staff 403; then the
page, which only asks and acts. Whatever is refused on the way becomes a page of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast
from urllib.parse import quote

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.views.decorators.gzip import gzip_page

from apps.accounts.access import UserAccess
from apps.core.access import Level
from apps.core.errors import Forbidden, as_api_error, plain_error
from apps.core.requests import prolong
from apps.repos.access import RepoAccess, open_repo, owner_path
from apps.repos.queries import list_repos
from apps.site.limits import BY_ADDRESS, throttle_page, throttle_reading
from apps.teams.access import TeamAccess, open_team
from apps.web.responses import PageRequest, ask_to_sign_in, refuse

View = Callable[..., HttpResponseBase]
READ = ("GET",)
FORM = ("GET", "POST")
SENT = "sent"
"""The cookie that has the path of a form that was accepted, until the next page."""


class PageView(Protocol):
    """The declaration that `@page` leaves on a view, for the tests and for `errors.old_form`."""

    page: Level
    methods: tuple[str, ...]
    throttle: str | None


def page(
    needs: Level,
    *,
    methods: tuple[str, ...] = READ,
    throttle: str | None = None,
    is_packed: bool = True,
) -> Callable[[View], View]:
    """Declare a page: `PUBLIC` for everybody, `NONE` for whoever is signed in, `STAFF`.

    `throttle` is what a POST counts in: the tag that its operation has in the API, or a rate scope
    of signing in. `is_packed`: whether the answer may be compressed.
    """

    packed: Callable[[View], View] = gzip_page if is_packed else as_it_is

    def declare(view: View) -> View:
        @packed
        @wraps(view)
        def run(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                last = before(request, needs, methods, throttle)
                response = last or view(request, *args, **kwargs)
            except Exception as exception:
                error = as_api_error(exception)
                if error is None:
                    raise
                response = refuse(request, error, keeps_texts=True)
            if not response.has_header("Cache-Control"):
                keep_from_caches(request, response)
            tell_what_was_sent(request, response)
            return response

        declared = cast("PageView", run)
        declared.page, declared.methods, declared.throttle = needs, methods, throttle
        return run

    return declare


def keep_from_caches(request: PageRequest, response: HttpResponseBase) -> None:
    """Browsers show pages that they have stored when people go back, without asking again. They
    store none of somebody who is signed in: after signing out it would still be there.
    """
    if request.principal.is_signed_in:
        response["Cache-Control"] = "no-store"
    else:
        patch_cache_control(response, private=True, no_cache=True)


def tell_what_was_sent(request: PageRequest, response: HttpResponseBase) -> None:
    """After a form was accepted, let the next page say so in `data-sent`: only then a browser
    forgets what it has kept of the text.
    """
    if request.method == "POST" and response.status_code == 303 and request.principal.is_signed_in:
        response.set_cookie(
            SENT,
            request.path,
            max_age=60,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
    elif SENT in request.COOKIES and response.status_code == 200:
        response.delete_cookie(SENT, samesite="Lax")


def as_it_is(view: View) -> View:
    """In the place of `gzip_page`."""
    return view


def before(
    request: PageRequest, needs: Level, methods: tuple[str, ...], throttle: str | None
) -> HttpResponse | None:
    """The steps before the page; an answer when one of them is the last."""
    if request.method not in (*methods, *(["HEAD"] if "GET" in methods else [])):
        error = plain_error(405)
        error.headers["Allow"] = ", ".join(methods)
        raise error
    principal = request.principal
    signed_in = principal.is_signed_in
    request.auth = principal  # where filters look for who asks, as in the API
    if signed_in:
        request.user = principal.user
    if not signed_in and needs is not Level.PUBLIC:
        return ask_to_sign_in(request)
    if request.method != "POST":
        if not signed_in and throttle not in BY_ADDRESS:
            throttle_reading(request)
    elif throttle is not None:
        throttle_page(request, throttle, principal.user if signed_in else None)
    if signed_in:
        prolong(request)
        if needs is Level.STAFF:
            principal.check_staff()
    return None


def repo_page(
    needs: Level = Level.READ,
    *,
    methods: tuple[str, ...] = READ,
    throttle: str | None = None,
    signed_in: bool = False,
    is_packed: bool = True,
) -> Callable[[View], View]:
    """Declare a page below a repository: it is given the caller's access before what else its
    address names.

    Anonymous people read public ones; for all others, and for those that do not exist, they are
    asked to sign in. `signed_in`: a page that is of use only to who is.
    """

    def open_named(request: PageRequest, kwargs: dict[str, Any]) -> RepoAccess:
        writing = request.method == "POST"
        owner, slug = owner_path(kwargs), kwargs.pop("repo_slug")
        kwargs.pop("team_slug", None) or kwargs.pop("username")
        return open_repo(
            request.principal, owner, slug, needs=needs, writing=writing, former=not writing
        )

    return _page_below(
        open_named, methods=methods, throttle=throttle, signed_in=signed_in, is_packed=is_packed
    )


def team_page(
    needs: Level = Level.READ,
    *,
    methods: tuple[str, ...] = READ,
    throttle: str | None = None,
    signed_in: bool = False,
    even_inactive: bool = False,
) -> Callable[[View], View]:
    """The same for a page of a team: anonymous people see those with a public repository.

    `even_inactive` as in `@operation`.
    """

    def open_named(request: PageRequest, kwargs: dict[str, Any]) -> TeamAccess:
        posted = request.method == "POST"
        access = open_team(
            request.principal,
            kwargs.pop("team_slug"),
            needs=needs,
            writing=posted and not even_inactive,
            former=not posted,
        )
        check_is_shown(access)
        return access

    return _page_below(open_named, methods=methods, throttle=throttle, signed_in=signed_in)


def check_is_shown(access: TeamAccess | UserAccess) -> None:
    """404 for anonymous people where the team or person has no public repository."""
    if not access.principal.is_signed_in and not list_repos(access)[:1]:
        raise Http404


def _page_below(
    open_named: Callable[[PageRequest, dict[str, Any]], RepoAccess | TeamAccess],
    *,
    methods: tuple[str, ...],
    throttle: str | None,
    signed_in: bool,
    is_packed: bool = True,
) -> Callable[[View], View]:
    def declare(view: View) -> View:
        @page(Level.PUBLIC, methods=methods, throttle=throttle, is_packed=is_packed)
        @wraps(view)
        def run(request: PageRequest, **kwargs: Any) -> HttpResponseBase:
            is_known = request.principal.is_signed_in
            if (signed_in or request.method == "POST") and not is_known:
                return ask_to_sign_in(request)
            try:
                access = open_named(request, kwargs)
            except (Forbidden, Http404):
                if is_known:
                    raise
                return ask_to_sign_in(request)  # private or missing: the answer is the same
            return moved(request, access) or view(request, access, **kwargs)

        return run

    return declare


def moved(request: PageRequest, access: RepoAccess | TeamAccess) -> HttpResponse | None:
    """301 to where the team or repository is today; None where it was asked for by that name."""
    if not access.moved:
        return None
    depth = len(access.name.split("/")) + 1
    address = quote("/".join([f"/{access.name}", *request.path.split("/")[depth:]]))
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address)
