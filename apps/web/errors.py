"""Django's error handlers (400, 403, 404, 500) and the view for CSRF failures."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import is_valid_path
from django.utils.http import escape_leading_slashes

from apps.core.errors import as_api_error, plain_error
from apps.site.models import DailyCount
from apps.web.responses import PageRequest, render_error, render_page, typed_values

NO_PAGES = ("/api/",)
"""Paths that answer a bare status; below `/api/` middleware adds the ErrorBody."""


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, and 413 for a body that is too large: Django raises SuspiciousOperation for both."""
    return error_page(request, status=413 if isinstance(exception, RequestDataTooBig) else 400)


def error_page(
    request: HttpRequest, exception: Exception | None = None, *, status: int
) -> HttpResponse:
    """The error page of this status; below `/api/`, the status alone."""
    if request.path_info.startswith(NO_PAGES):
        return HttpResponse(status=status)
    return render_error(request, plain_error(status))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, or 301 if the path with or without its trailing slash has a page."""
    address = address_with_other_slash(request) if request.method in {"GET", "HEAD"} else None
    if address is not None:
        return HttpResponsePermanentRedirect(address)
    return error_page(request, status=404)


def address_with_other_slash(request: HttpRequest) -> str | None:
    """The address with the trailing slash added or removed, if only that one has a page."""
    path = request.path_info
    if request.resolver_match is not None or path.startswith(NO_PAGES):
        return None
    other = path.rstrip("/") if path.endswith("/") else f"{path}/"
    if not is_valid_path(other):
        return None
    # An address that begins with two slashes would name another host.
    query = request.META.get("QUERY_STRING", "")
    address = escape_leading_slashes(quote(other))
    return f"{address}?{query}" if query else address


forbidden = partial(error_page, status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 if the database is unavailable; for pages, the admin and middleware."""
    if error := as_api_error(sys.exception() or Exception()):
        return error_page(request, status=error.status)
    DailyCount.add("server_errors")
    return error_page(request, status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a POST without a valid CSRF token.

    If the browser says that the form is from this site, the form is outdated, and its page comes
    back with the typed values and a new token. The view runs as for a GET, and changes nothing.
    """
    match = request.resolver_match
    ours = request.headers.get("Sec-Fetch-Site") == "same-origin"
    if match is None or not hasattr(match.func, "page") or not ours:
        return error_page(request, status=403)
    page_request = cast("PageRequest", request)
    page_request.restored = typed_values(request)
    page_request.method = "GET"
    response: Any = match.func(page_request, *match.args, **match.kwargs)
    if response.status_code == 405:  # no GET page, such as /signout
        response = render_page(page_request, "again", again=page_request.get_full_path())
    if response.status_code == 200:
        response.status_code = 403
    return cast("HttpResponse", response)
