"""Reads request bodies: JSON within a limit, also from chunked bodies."""

from __future__ import annotations

import re
from typing import Any, Protocol

from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from apps.core import json
from apps.core.body_limits import UPLOAD_LIMIT
from apps.core.errors import ApiError, BadRequest, PayloadTooLarge, UnsupportedMediaType

JSON_LIMIT = 1024 * 1024
JSON_TYPE = re.compile(r'application/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?', re.IGNORECASE)


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class StrictJSONParser(BaseParser):
    """Parses a body as a JSON object of at most `limit` bytes.

    `ApiViewSet` calls it with the server's own stream: to DRF a chunked body, which has no
    Content-Length, is an empty one.
    """

    media_type = "application/json"
    limit = JSON_LIMIT

    def parse(
        self, stream: Readable, media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        """The object; `{}` without a body, unless `parser_context["required"]`.

        Errors: 413, 415, 400 `malformed_request`.
        """
        context = parser_context or {}
        raw = read_body(stream, self.limit, context.get("declared", 0))
        if not raw:
            if context.get("required"):
                raise BadRequest("malformed_request", "A JSON object is required as the body.")
            return {}
        if not JSON_TYPE.fullmatch((media_type or "").strip()):
            raise UnsupportedMediaType(
                "unsupported_media_type", "Send the body as application/json."
            )
        try:
            body = json.loads_body(raw)
        except ValueError as error:
            raise BadRequest("malformed_request", f"The body is not valid JSON: {error}.") from None
        if not isinstance(body, dict):
            raise BadRequest("malformed_request", "The body must be a JSON object.")
        return body


class UploadParser(StrictJSONParser):
    """Parses the body of a request with a file."""

    limit = UPLOAD_LIMIT


def body_stream(request: HttpRequest) -> tuple[Readable, int]:
    """The stream of a request's body, and its declared length.

    A chunked body declares none. To Django's WSGI request it is empty, and the stream is the
    server's own.
    """
    if request.META.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        return request.META.get("wsgi.input", request), 0
    return request, int(request.META.get("CONTENT_LENGTH") or 0)


def read_body(stream: Readable, limit: int, declared: int) -> bytes:
    """The whole body; 413 for more than `limit` bytes, 400 for fewer than `declared`."""
    if declared > limit:
        raise too_large(limit)
    try:
        raw = stream.read(limit + 1)
    except ApiError:
        raise
    except Exception as error:  # malformed chunks; each server has an error of its own
        raise broken_off() from error
    if len(raw) > limit:
        raise too_large(limit)
    if len(raw) < declared:
        raise broken_off()
    return raw


def broken_off() -> BadRequest:
    """400 for a body that is shorter than declared."""
    return BadRequest("malformed_request", "The body is incomplete, or its chunks are malformed.")


def too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge("payload_too_large", f"The body is larger than {limit:,} bytes.")
