"""The request with the attributes that our middleware and steps set on it."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest

from apps.core.access import Principal


class SiteRequest(HttpRequest):
    """Types the attributes that this project adds to Django's requests, which Django makes."""

    id: str
    """Set by `apps.web.headers.page_headers`: the id by which the logs name the request."""
    principal: Principal
    """Set by `apps.accounts.authentication.session_principal`."""
    auth: Principal
    """Set by `@page`: filters read it from there, as from a request of DRF."""
    answer_headers: dict[str, str]
    """Headers that the answer gets; missing until a step sets one."""


def set_answer_header(request: HttpRequest, name: str, value: str) -> None:
    """Set a header of the answer, beside those that other steps have set."""
    site_request = cast("SiteRequest", request)
    headers = getattr(site_request, "answer_headers", {})
    site_request.answer_headers = {**headers, name: value}
