"""The known rate scopes, and the bounds of a rate limit."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.views import schema_tags
from apps.site.kinds import USER, RateScope

RATE_SCOPE_MAX = 64
REQUESTS_MAX = 1_000_000
WINDOW_MAX = 86_400
"""Seconds."""


def known_rate_scopes() -> list[str]:
    """All rate scopes except those of single users: `RateScope`, then the tags of operations."""
    return list(dict.fromkeys([*map(str, RateScope), *schema_tags()]))


def checked_rate_scope(text: str) -> str:
    """The rate scope in its stored form, with the spelling of the username.

    Errors: 422 for an unknown rate scope, with all known ones; 422 `user_not_found`.
    """
    if not text.startswith(USER):
        known = known_rate_scopes()
        if text not in known:
            words = ", ".join([*known, f"{USER}<username>"])
            raise Invalid("validation_failed", f"scope: {quoted(text)} is not one of {words}.")
        return text
    name = text.removeprefix(USER)
    user = get_user_model().objects.filter(username_key=name.lower()).first()
    if user is None:
        raise Invalid("user_not_found", f"There is no user {quoted(name)}.")
    return f"{USER}{user.username}"
