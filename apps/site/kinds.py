"""Rate scopes."""

from __future__ import annotations

from enum import StrEnum


class RateScope(StrEnum):
    """The requests that a rate limit counts, besides tags of operations and `user:<username>`."""

    API = "api"
    ANONYMOUS = "anonymous"
    AUTHENTICATED = "authenticated"
    WRITE = "write"
    GIT = "git"
    STREAM = "stream"
    LOGIN = "login"
    SIGNUP = "signup"


USER = "user:"
"""Prefix of a username: such a rate scope replaces `authenticated` for that person."""
