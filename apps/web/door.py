"""The door of the pages: each passes the same steps in the same order, as in the API.

405 → signed in, else 302 to sign-in, or 401 for a POST → charge 429 → staff 403 → the page, which
only asks and acts. Whatever is refused on the way becomes a page of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth import get_user
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control
from django.views.decorators.gzip import gzip_page

from apps.core.access import Level, check_level
from apps.core.errors import as_api_error, plain_error
from apps.core.sessions import prolong
from apps.site.kinds import RateScope
from apps.site.limits import charge_page
from apps.web.answers import Visit, ask_to_sign_in, refuse

if TYPE_CHECKING:
    from apps.accounts.models import User

View = Callable[..., HttpResponse]
READ = ("GET",)
FORM = ("GET", "POST")


def page(
    needs: Level, *, methods: tuple[str, ...] = READ, charge: RateScope | None = None
) -> Callable[[View], View]:
    """Declare a page: `PUBLIC` for everybody, `NONE` for whoever is signed in, `STAFF`.

    `charge` is the rate scope that a POST is charged to.
    """

    def declare(view: View) -> View:
        @gzip_page
        @wraps(view)
        def run(request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                check_method(request, methods)
                response = enter(request, needs, charge) or view(request, *args, **kwargs)
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


def check_method(request: HttpRequest, methods: tuple[str, ...]) -> None:
    """405 for any other method."""
    if request.method not in (*methods, "HEAD"):
        error = plain_error(405)
        error.headers["Allow"] = ", ".join(methods)
        raise error


def enter(request: Visit, needs: Level, charge: RateScope | None) -> HttpResponse | None:
    """The steps before the page; an answer when one of them is the last."""
    if not hasattr(request, "kept"):
        request.kept = {}
    # The person itself: the middleware's lazy stand-in is no row that an action could lock.
    user = get_user(request)
    request.user = cast("User", user)
    signed_in = user.is_authenticated
    if not signed_in and needs is not Level.PUBLIC:
        return ask_to_sign_in(request)
    if charge is not None and request.method == "POST":
        charge_page(request, charge)
    if signed_in:
        prolong(request)
        check_level(None, request.user, needs)
    return None
