"""How pages look to somebody: the theme of their account, or of their browser's cookie."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from apps.accounts.models import Theme

COOKIE = "theme"
LASTS = 365 * 86400
"""Seconds for which a browser keeps a theme."""


def theme_of(request: HttpRequest) -> str:
    """What the person has chosen; for nobody, what was chosen in this browser."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return str(user.theme)
    chosen = request.COOKIES.get(COOKIE, "")
    return chosen if chosen in {*Theme} else Theme.SYSTEM


def remember_theme(response: HttpResponse, theme: Theme) -> HttpResponse:
    """Let this browser keep the theme, also for when nobody is signed in."""
    if theme is Theme.SYSTEM:
        response.delete_cookie(COOKIE, samesite="Lax")
        return response
    response.set_cookie(
        COOKIE,
        theme,
        max_age=LASTS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def look(request: HttpRequest) -> dict[str, str]:
    """The data attributes of `<html>` on each page: what differs from what nobody has chosen."""
    found = {}
    theme = theme_of(request)
    if theme != Theme.SYSTEM:
        found["theme"] = theme
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated and not user.has_shortcuts:
        found["shortcuts"] = "off"
    return found
