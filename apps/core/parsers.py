"""Reading what a client sent: JSON bodies within a limit, and query parameters without guessing.

engine.md §2 lists the inputs that stock parsing gets wrong; each has a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest

from apps.core import json
from apps.core.errors import BadRequest, Invalid, PayloadTooLarge, UnsupportedMediaType
from apps.core.json import quoted

JSON_LIMIT = 1024 * 1024
PAGE_LIMIT = 10**9
PER_PAGE_DEFAULT = 30
PER_PAGE_MAX = 100
DIGITS = re.compile(r"[0-9]{1,20}")
NO_NUL = r"^[^\x00]*$"
"""The pattern of any text: PostgreSQL stores no NUL."""
JSON_TYPE = re.compile(r'application/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?', re.IGNORECASE)


def read_body(request: HttpRequest, limit: int = JSON_LIMIT) -> bytes:
    """The whole body, however it was framed; `PayloadTooLarge` past `limit` bytes.

    A chunked body has no CONTENT_LENGTH: Django's WSGI request would see it as empty, so it is
    read from the server's own stream (engine.md §2 and §3). `BadRequest` where it breaks off.
    """
    chunked = request.META.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
    declared = 0 if chunked else int(request.META.get("CONTENT_LENGTH") or 0)
    if declared > limit:
        raise too_large(limit)
    stream: Any = request.META.get("wsgi.input", request) if chunked else request
    try:
        raw: bytes = stream.read(limit + 1)
    except Exception as error:  # broken chunks: each server has an error of its own
        raise broken_off() from error
    if len(raw) > limit:
        raise too_large(limit)
    if len(raw) < declared:
        raise broken_off()
    return raw


def broken_off() -> BadRequest:
    """400 for a body of which less has come than was announced."""
    return BadRequest("malformed_request", "The body breaks off, or its chunks are malformed.")


def too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge("payload_too_large", f"The body is larger than {limit:,} bytes.")


def read_json(request: HttpRequest, *, required: bool) -> dict[str, Any]:
    """The body as a JSON object; `{}` for no body where none is required.

    Errors: 413, 415, 400 `malformed_request`.
    """
    raw = read_body(request)
    if not raw:
        if required:
            raise BadRequest("malformed_request", "A JSON object is required as the body.")
        return {}
    if not JSON_TYPE.fullmatch(request.META.get("CONTENT_TYPE", "").strip()):
        raise UnsupportedMediaType("unsupported_media_type", "Send the body as application/json.")
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadRequest("malformed_request", f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise BadRequest("malformed_request", "The body must be a JSON object.")
    return body


@dataclass(frozen=True)
class Query:
    """One query parameter: its name, how its text is read, and how the document describes it.

    `read` raises `ValueError` with the reason; an absent parameter is `default`.
    """

    name: str
    read: Callable[[str], Any]
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})
    description: str = ""
    default: Any = None
    many: bool = False
    required: bool = False
    header: bool = False
    """It comes as a header of this name; an empty one says nothing."""

    def value(self, request: HttpRequest) -> Any:
        """The parsed value (a list where `many`); `Invalid` when the text cannot be read."""
        sent = request.headers.get(self.name) if self.header else None
        texts = [sent] if sent else [] if self.header else request.GET.getlist(self.name)
        if self.required and not any(texts):
            raise Invalid("validation_failed", f"{self.name}: This query parameter is required.")
        try:
            if self.many:
                return [self.read(text) for text in texts]
            return self.read(texts[-1]) if texts else self.default
        except ValueError as error:
            raise Invalid("validation_failed", f"{self.name}: {error}") from None


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL is not allowed.")
    return text


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("Must be true or false.")
    return text == "true"


def number(text: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """An ASCII integer within bounds; `ValueError` says what is expected."""
    if not DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise ValueError(f"Must be an integer from {least} to {most}.")
    return int(text)


def text_query(name: str, description: str = "") -> Query:
    """Any text without NUL."""
    return Query(name, _text, {"type": "string", "pattern": NO_NUL}, description)


def flag_query(name: str, description: str = "") -> Query:
    return Query(name, _flag, {"type": "boolean"}, description, default=False)


def choice_query(name: str, choices: list[str], description: str = "") -> Query:
    """One of a closed list; anything else is a 422 that names the list."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{quoted(text)} is not one of {', '.join(choices)}.")
        return text

    return Query(name, read, {"type": "string", "enum": choices}, description)


def _count(name: str, default: int, description: str) -> Query:
    schema = {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT, "default": default}
    return Query(
        name, lambda text: number(text, least=1, most=PAGE_LIMIT), schema, description, default
    )


PAGE = _count("page", 1, "Which page, from 1. A page past the end is empty.")
PER_PAGE = _count("per_page", PER_PAGE_DEFAULT, f"Over {PER_PAGE_MAX} counts as {PER_PAGE_MAX}.")
