"""Middleware: the Content-Security-Policy of every page."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

Next = Callable[[HttpRequest], HttpResponseBase]
OWN = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
ADMIN = "/admin/"


def policy(**changed: str) -> str:
    """A Content-Security-Policy: `OWN` with some directives changed, such as `style_src="…"`."""
    directives = OWN | {name.replace("_", "-"): value for name, value in changed.items()}
    return "; ".join(f"{name} {value}" for name, value in directives.items())


PAGES = policy()
ADMIN_PAGES = policy(style_src="'self' 'unsafe-inline'", font_src="'self'")
"""The policy of the admin: Django hides some rows there by style attributes."""


def page_headers(get_response: Next) -> Next:
    """Send the policy with every HTML response, Django's own error pages included."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if response.get("Content-Type", "").startswith("text/html"):
            admin = request.path_info.startswith(ADMIN)
            response.setdefault("Content-Security-Policy", ADMIN_PAGES if admin else PAGES)
        return response

    return answer
