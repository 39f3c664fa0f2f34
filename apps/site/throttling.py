"""The throttle of the API: DRF asks it before anything is looked up."""

from __future__ import annotations

from typing import Any

from rest_framework.throttling import BaseThrottle

from apps.site import limits
from apps.site.kinds import RateScope


class RecordedThrottle(BaseThrottle):
    """Counts a request in every rate limit that staff has recorded for it; 429.

    Refuses by itself with our error, which has the headers; DRF's would lose them. Staff is never
    locked out of the limits themselves.
    """

    def allow_request(self, request: Any, view: Any) -> bool:
        user = request.user if request.user.is_authenticated else None
        if user is not None and user.is_staff and view.unlimited_for_staff:
            return True
        rate_scopes = [RateScope.API, limits.personal(user), *view.schema_tags, *view.rate_scopes]
        if view.is_writing:
            rate_scopes.append(RateScope.WRITE)
        limits.throttle(view.http_request, rate_scopes, user=user)
        return True
