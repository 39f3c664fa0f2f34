"""Sets the principal of pages and of the admin, from the session."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.functional import SimpleLazyObject

from apps.accounts.authentication import principal_of_session
from apps.accounts.principal import Principal
from apps.core.middleware import Next
from apps.core.requests import SiteRequest


def session_principal(get_response: Next) -> Next:
    """Set `request.principal`, read from the session when it is first asked for.

    Its person is the row itself: Django's lazy `request.user` is none that an action could lock.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        principal = SimpleLazyObject(lambda: principal_of_session(request))
        cast("SiteRequest", request).principal = cast("Principal", principal)
        return get_response(request)

    return answer
