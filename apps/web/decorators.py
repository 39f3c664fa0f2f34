"""`@page`: every page runs the same checks in the same order, as in the API.

Method 405; sign-in 302, or 401 for a POST; rate limit 429; staff 403; then the view, which only
queries and acts. Each error becomes an error page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from django.http import Http404, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_cache_control

from apps.accounts.access import UserAccess, open_user
from apps.core.access import Level
from apps.core.errors import Forbidden, as_api_error, plain_error
from apps.core.requests import prolong
from apps.repos.access import RepoAccess, open_repo, owner_path
from apps.repos.queries import list_repos
from apps.site.limits import BY_ADDRESS, throttle_page, throttle_reading
from apps.teams.access import TeamAccess, open_team
from apps.web.responses import PageRequest, ask_to_sign_in, is_secret, render_error, set_cookie

View = Callable[..., HttpResponseBase]
AnyAccess = RepoAccess | TeamAccess | UserAccess
READ = ("GET",)
FORM = ("GET", "POST")
POST = ("POST",)
SENT = "sent"
"""The cookie with the path of the form that was just accepted; the next page deletes it."""
GZIP = GZipMiddleware(lambda _: HttpResponse())
"""Called for single responses. Its padding of random length hides the exact sizes of pages."""


class PageOptions(TypedDict, total=False):
    """The keywords of every page."""

    methods: tuple[str, ...]
    throttle: str | None
    """The rate limit that a POST counts towards: the tag of its operation in the API, or a rate
    scope of signing in.
    """
    is_compressed: bool
    """Whether the response may be compressed."""


def page(needs: Level, **options: Unpack[PageOptions]) -> Callable[[View], View]:
    """Declare a page. `needs`: `PUBLIC` for everybody, `NONE` for anybody signed in, or `STAFF`."""
    methods, throttle = options.get("methods", READ), options.get("throttle")

    def declare(view: View) -> View:
        @wraps(view)
        def run(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                answer = check_request(request, needs, methods, throttle)
                response = answer or view(request, *args, **kwargs)
            except Exception as exception:
                error = as_api_error(exception)
                if error is None:
                    raise
                response = render_error(request, error, keeps_texts=True)
            if not response.has_header("Cache-Control"):
                forbid_caching(request, response)
            mark_form_as_sent(request, response)
            if options.get("is_compressed", True) and not is_secret(response):
                GZIP.process_response(request, response)
            return response

        declared: Any = run  # its attributes are for tests and `errors.csrf_failure`
        declared.page, declared.methods, declared.throttle = needs, methods, throttle
        return run

    return declare


def forbid_caching(request: PageRequest, response: HttpResponseBase) -> None:
    if request.principal.is_signed_in:
        # Back would still show a stored page after they have signed out.
        response["Cache-Control"] = "no-store"
    else:
        patch_cache_control(response, private=True, no_cache=True)


def mark_form_as_sent(request: PageRequest, response: HttpResponseBase) -> None:
    """Set the cookie `SENT` after a form was accepted: the drafts script then deletes its text."""
    if request.method == "POST" and response.status_code == 303 and request.principal.is_signed_in:
        set_cookie(response, SENT, request.path, seconds=60)
    elif SENT in request.COOKIES and response.status_code == 200:
        response.delete_cookie(SENT, samesite="Lax")


def check_request(
    request: PageRequest, needs: Level, methods: tuple[str, ...], throttle: str | None
) -> HttpResponse | None:
    """Run the checks before the view; a response if the person has to sign in first."""
    if request.method not in (*methods, *(["HEAD"] if "GET" in methods else [])):
        error = plain_error(405)
        error.headers["Allow"] = ", ".join(methods)
        raise error
    principal = request.principal
    signed_in = principal.is_signed_in
    request.auth = principal  # filters read the principal there, as in the API
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
        prolong(request, principal.user)
        if needs is Level.STAFF:
            principal.check_staff()
    return None


def repo_page(
    needs: Level = Level.READ, *, signed_in: bool | None = None, **options: Unpack[PageOptions]
) -> Callable[[View], View]:
    """Declare a page below a repository. The view gets the caller's access, then the other
    parameters of its path.

    Anonymous people can read public repositories; for private and missing ones alike they are asked
    to sign in. `signed_in`: whether also for each GET, by default if the page has a form.
    """

    def open_resource(request: PageRequest, kwargs: dict[str, Any]) -> RepoAccess:
        writing = request.method == "POST"
        owner, slug = owner_path(kwargs), kwargs.pop("repo_slug")
        kwargs.pop("team_slug", None) or kwargs.pop("username")
        return open_repo(
            request.principal, owner, slug, needs=needs, writing=writing, former=not writing
        )

    return _page_below(open_resource, signed_in, **options)


def team_page(
    needs: Level = Level.READ, *, even_inactive: bool = False, **options: Unpack[PageOptions]
) -> Callable[[View], View]:
    """Declare a page below a team. Anonymous people can see teams with a public repository.

    `even_inactive`: the same as in `@operation`.
    """

    def open_resource(request: PageRequest, kwargs: dict[str, Any]) -> TeamAccess:
        posted, slug = request.method == "POST", kwargs.pop("team_slug")
        writing = posted and not even_inactive
        access = open_team(request.principal, slug, needs=needs, writing=writing, former=not posted)
        check_has_public_repo(access)
        return access

    return _page_below(open_resource, **options)


def user_page() -> Callable[[View], View]:
    """Declare the page of a person. Anonymous people can see people with a public repository."""

    def open_resource(request: PageRequest, kwargs: dict[str, Any]) -> UserAccess:
        access = open_user(request.principal, kwargs.pop("username"), needs=Level.NONE)
        check_has_public_repo(access)
        return access

    return _page_below(open_resource)


def check_has_public_repo(access: TeamAccess | UserAccess) -> None:
    """404 for anonymous people unless the team or person has a public repository."""
    if not access.principal.is_signed_in and not list_repos(access)[:1]:
        raise Http404


def _page_below(
    open_resource: Callable[[PageRequest, dict[str, Any]], AnyAccess],
    signed_in: bool | None = None,
    **options: Unpack[PageOptions],
) -> Callable[[View], View]:
    if signed_in is None:
        signed_in = "POST" in options.get("methods", READ)

    def declare(view: View) -> View:
        @page(Level.PUBLIC, **options)
        @wraps(view)
        def run(request: PageRequest, **kwargs: Any) -> HttpResponseBase:
            is_signed_in = request.principal.is_signed_in
            if (signed_in or request.method == "POST") and not is_signed_in:
                return ask_to_sign_in(request)
            try:
                access = open_resource(request, kwargs)
            except (Forbidden, Http404):
                if is_signed_in:
                    raise
                return ask_to_sign_in(request)  # the same for private and missing ones
            return redirect_if_moved(request, access) or view(request, access, **kwargs)

        return run

    return declare


def redirect_if_moved(request: PageRequest, access: AnyAccess) -> HttpResponse | None:
    """301 to the current path if the request has a former slug of the team or repository."""
    if not access.moved:
        return None
    depth = len(access.name.split("/")) + 1
    address = quote("/".join([f"/{access.name}", *request.path.split("/")[depth:]]))
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address)
