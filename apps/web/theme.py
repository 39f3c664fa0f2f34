"""The theme of the pages: of the person's account, or of a cookie of the browser."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from apps.accounts.models import Theme
from apps.web.responses import keep_cookie

THEME = "theme"
THEME_SECONDS = 365 * 86400
"""Seconds for which a browser keeps a theme."""


def theme_of(request: HttpRequest) -> str:
    """What the person has chosen; for nobody, what was chosen in this browser."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return str(user.theme)
    chosen = request.COOKIES.get(THEME, "")
    return chosen if chosen in {*Theme} else Theme.SYSTEM


def remember_theme(response: HttpResponse, theme: Theme) -> HttpResponse:
    """Let this browser keep the theme, also for when nobody is signed in."""
    if theme is Theme.SYSTEM:
        response.delete_cookie(THEME, samesite="Lax")
        return response
    keep_cookie(response, THEME, theme, THEME_SECONDS)
    return response
