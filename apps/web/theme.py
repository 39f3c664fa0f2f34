"""The theme of pages: the setting of the account, or the cookie of the browser."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from apps.accounts.models import Theme
from apps.web.responses import set_cookie

THEME = "theme"
THEME_SECONDS = 365 * 86400
"""Lifetime of the cookie in seconds."""


def theme_of(request: HttpRequest) -> str:
    """The theme of the person's account; if nobody is signed in, that of the cookie."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return str(user.theme)
    chosen = request.COOKIES.get(THEME, "")
    return chosen if chosen in {*Theme} else Theme.SYSTEM


def remember_theme(response: HttpResponse, theme: Theme) -> HttpResponse:
    """Set the cookie of the theme, for when nobody is signed in."""
    if theme is Theme.SYSTEM:
        response.delete_cookie(THEME, samesite="Lax")
        return response
    set_cookie(response, THEME, theme, THEME_SECONDS)
    return response
