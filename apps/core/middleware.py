"""The outermost layer under `/api/`: whatever Django or a server answers becomes ErrorBody."""

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
    """Answer in ErrorBody for an unknown route, a bad host, a malformed path or a 500.

    Every answer gets the headers that have been left in `request.answer_headers`. No cache keeps
    any, unless it says so itself: it is for one caller and this moment, and may hold a token.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return get_response(request)
        if refusal := too_long(request):
            return error_answer(refusal)
        response = get_response(request)
        foreign = response.get("Content-Type", "").partition(";")[0] != "application/json"
        if response.status_code >= 400 and foreign:
            response = error_answer(plain_error(response.status_code))
        add_headers(request, response)
        response.setdefault("Cache-Control", "no-store")
        return response

    return answer


def too_long(request: HttpRequest) -> ApiError | None:
    """414 or 431 for an address or a header that the server took and that is too long for us."""
    if len(request.get_full_path()) > URI_LIMIT:
        return plain_error(414)
    fields = (value for name, value in request.META.items() if name.startswith("HTTP_"))
    return plain_error(431) if any(len(value) > FIELD_LIMIT for value in fields) else None


def add_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Give the answer what the steps of the request have left for it: how its rate limits stand."""
    for name, value in getattr(request, "answer_headers", {}).items():
        response[name] = value


def error_answer(error: ApiError) -> HttpResponse:
    """A plain Django answer with ErrorBody, for what answers outside DRF."""
    return HttpResponse(
        json.dumps(error.body()),
        status=error.status,
        content_type="application/json",
        headers=error.headers,
    )
