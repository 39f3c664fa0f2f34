"""Writes answers as JSON and refusals as ErrorBody, whatever `Accept` says.

Separate from `views`, because DRF loads the classes of its settings with its own views.
"""

from __future__ import annotations

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from apps.core import json
from apps.core.errors import ApiError, as_api_error


class JSONRenderer(BaseRenderer):
    """Writes answers with `core.json`."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, *_: Any, **__: Any) -> bytes:
        return b"" if data is None else json.dumps(data)


class IgnoreAcceptNegotiation(BaseContentNegotiation):
    """Ignores `Accept`: there is one representation, and never a 406."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def handle_exception(exception: BaseException, context: Any) -> Response | None:
    """DRF's exception handler: ErrorBody for a refusal, None (a 500) for a defect."""
    error = as_api_error(exception)
    return None if error is None else error_response(error)


def error_response(error: ApiError) -> Response:
    return Response(error.body(), status=error.status, headers=error.headers)
