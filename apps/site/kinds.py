"""The closed words of rate limits."""

from __future__ import annotations

from enum import StrEnum


class RateScope(StrEnum):
    """What a rate limit can be about, beside the tags of operations and `user:<username>`."""

    API = "api"
    ANONYMOUS = "anonymous"
    AUTHENTICATED = "authenticated"
    WRITE = "write"
    GIT = "git"
    STREAM = "stream"
    LOGIN = "login"
    SIGNUP = "signup"


USER = "user:"
"""Before a username: the rate scope that replaces `authenticated` for that person."""
