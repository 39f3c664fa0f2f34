"""`@page`: every page passes the same steps in the same order, as in the API.

Method 405; signed in, else 302 to sign-in, or 401 for a POST; rate limit 429; staff 403; then the
page, which only asks and acts. Whatever is refused on the way becomes a page of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.gzip import gzip_page

from apps.core.access import Level
from apps.core.errors import as_api_error, plain_error
from apps.core.sessions import prolong
from apps.site.kinds import RateScope
from apps.site.limits import throttle_page
from apps.web.responses import PageRequest, ask_to_sign_in, refuse

View = Callable[..., HttpResponse]
READ = ("GET",)
FORM = ("GET", "POST")


def page(
    needs: Level, *, methods: tuple[str, ...] = READ, throttle: RateScope | None = None
) -> Callable[[View], View]:
    """Declare a page: `PUBLIC` for everybody, `NONE` for whoever is signed in, `STAFF`.

    `throttle` is the rate scope in which a POST counts.
    """

    def declare(view: View) -> View:
        @gzip_page
        @wraps(view)
        def run(request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                last = before(request, needs, methods, throttle)
                response = last or view(request, *args, **kwargs)
            except Exception as exception:
                error = as_api_error(exception)
                if error is None:
                    raise
                response = refuse(request, error)
            if not response.has_header("Cache-Control"):
                patch_cache_control(response, private=True, no_cache=True)
            return response

        vars(run)["page"] = needs
        return run

    return declare


def before(
    request: PageRequest, needs: Level, methods: tuple[str, ...], throttle: RateScope | None
) -> HttpResponse | None:
    """The steps before the page; an answer when one of them is the last."""
    if request.method not in (*methods, *(["HEAD"] if "GET" in methods else [])):
        error = plain_error(405)
        error.headers["Allow"] = ", ".join(methods)
        raise error
    principal = request.principal
    signed_in = principal.is_signed_in
    if signed_in:
        request.user = principal.user
    if not signed_in and needs is not Level.PUBLIC:
        return ask_to_sign_in(request)
    if throttle is not None and request.method == "POST":
        throttle_page(request, throttle)
    if signed_in:
        prolong(request)
        if needs is Level.STAFF:
            principal.check_staff()
    return None
