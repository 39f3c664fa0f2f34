"""The outermost middleware for `/api/`: errors of Django and of servers become ErrorBody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from apps.core import json
from apps.core.compression import compress
from apps.core.conditional import NO_STORE, by_body
from apps.core.errors import ApiError, plain_error
from apps.core.request_ids import with_request_id

Next = Callable[[HttpRequest], HttpResponseBase]
URI_LIMIT = 8000
"""Characters of path and query. gunicorn's threads take request lines of 8,190 bytes at most."""
FIELD_LIMIT = 8000
"""Characters of a header's value."""


def api_errors(get_response: Next) -> Next:
    """Answer with ErrorBody for an unknown route, a bad host, a malformed path or a 500.

    Every answer gets the headers of `request.answer_headers`. An answer that is no read is not
    cached: it is for one caller at this time, and may contain a token.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/api/"):
            return get_response(request)
        if refusal := too_long(request):
            return error_answer(refusal)
        response = get_response(request)
        if response.status_code >= 400 and not is_json(response):
            response = error_answer(plain_answer(response.status_code))
        if request.method in {"GET", "HEAD"} and response.status_code in {200, 304}:
            response = finish_read(request, response)
        add_headers(request, response)
        response.setdefault("Cache-Control", NO_STORE)
        return response

    return answer


def plain_answer(status: int) -> ApiError:
    """The error for a status alone. A 500 names its id, as its traceback in the log does."""
    error = plain_error(status)
    if status == 500:
        error.detail = with_request_id(error.detail)
    return error


def is_json(response: HttpResponseBase) -> bool:
    return response.get("Content-Type", "").partition(";")[0] == "application/json"


def finish_read(request: HttpRequest, response: Any) -> Any:
    """The answer to a read with an ETag, compressed if the client accepts it; or 304. An answer
    with a secret stays as it is.
    """
    if response.get("Cache-Control") == NO_STORE:
        return response
    if is_json(response):
        if "ETag" not in response:
            response = by_body(request, response)
        compress(request, response)
    if "Vary" in response:
        patch_vary_headers(response, ["Accept-Encoding"])
    else:  # the same, in less time
        response["Vary"] = "Accept-Encoding"
    return response


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
