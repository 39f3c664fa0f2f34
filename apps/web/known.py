"""Tries to sign in are limited for each account, but not for browsers that it has signed in with.

Others can use up the limit of an account, from however many addresses. Its person then still gets
in where they have been signed in before, which a signed cookie tells.
"""

from __future__ import annotations

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import get_random_string

from apps.accounts.models import User
from apps.site.limits import throttle_account

COOKIE = "known"
SALT = "guildhall.known"
LASTS = 365 * 86400
"""Seconds for which a browser is known since its last sign-in."""


def remember(request: HttpRequest, response: HttpResponse, user: User) -> HttpResponse:
    """Know this browser as one of the person's from now on."""
    mark = mark_of(request, user.username) or get_random_string(16)
    response.set_cookie(
        COOKIE,
        signing.dumps([user.username_key, mark], salt=SALT),
        max_age=LASTS,
        path=reverse("signin"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def throttle_try(request: HttpRequest, username: str) -> None:
    """Count a try to sign in to this account, whether there is one or not; 429. Each browser that
    it knows has tries of its own.
    """
    throttle_account(username, mark_of(request, username))


def mark_of(request: HttpRequest, username: str) -> str:
    """By what this browser is told from others in which the account has been signed in to; "" for
    one in which it has not.
    """
    try:
        name, mark = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=LASTS)
    except signing.BadSignature:
        return ""
    return str(mark) if name == username.lower() else ""
