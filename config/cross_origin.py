"""Middleware that lets pages of other origins call the API with a token: `CORS_ORIGINS`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from apps.core.middleware import Next


def cross_origin(get_response: Next) -> Next:
    """Answer preflights and add the headers of CORS, below `/api/v1/` and for the origins of the
    setting. Without one the package is not loaded, and nothing is added.
    """
    if not settings.CORS_ALLOWED_ORIGINS:
        return get_response
    middleware: Any = import_string("corsheaders.middleware.CorsMiddleware")
    made: Next = middleware(get_response)
    return made
