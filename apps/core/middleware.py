"""The outermost middleware for `/api/`: errors of Django and of servers become ErrorBody."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from apps.core import json
from apps.core.errors import ApiError, plain_error

Next = Callable[[HttpRequest], HttpResponseBase]
URI_LIMIT = 8000
"""Characters of path and query. gunicorn's threads take request lines of 8,190 bytes at most."""
FIELD_LIMIT = 8000
"""Characters of a header's value."""


def api_errors(get_response: Next) -> Next:
    """Answer with ErrorBody for an unknown route, a bad host, a malformed path or a 500.

    Every answer gets the headers of `request.answer_headers`, and is not cached unless it allows
    that: it is for one caller at this time, and may contain a token.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return get_response(request)
        if refusal := too_long(request):
            return error_answer(refusal)
        response = get_response(request)
        is_json = response.get("Content-Type", "").partition(";")[0] == "application/json"
        if response.status_code >= 400 and not is_json:
            response = error_answer(plain_error(response.status_code))
        add_headers(request, response)
        response.setdefault("Cache-Control", "no-store")
        return response

    return answer


def too_long(request: HttpRequest) -> ApiError | None:
    """414 or 431 for an address or a header above the API's limits, which the server accepted."""
    if len(request.get_full_path()) > URI_LIMIT:
        return plain_error(414)
    fields = (value for name, value in request.META.items() if name.startswith("HTTP_"))
    return plain_error(431) if any(len(value) > FIELD_LIMIT for value in fields) else None


def add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the headers that the steps of the request have set, such as those of rate limits."""
    for name, value in getattr(request, "answer_headers", {}).items():
        response[name] = value


def error_answer(error: ApiError) -> HttpResponse:
    """A Django response with ErrorBody, for code outside DRF."""
    return HttpResponse(
        json.dumps(error.body()),
        status=error.status,
        content_type="application/json",
        headers=error.headers,
    )
