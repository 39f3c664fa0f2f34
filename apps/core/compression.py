"""gzip for the JSON of the API. docs/decisions/0016 says which answers must not be compressed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

LEVEL = 4
LEAST = 1024
"""Bytes of the smallest answer that is compressed."""
ACCEPTED = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)
"""In Accept-Encoding; with `q=0` a client refuses it."""


def pack(body: bytes, level: int = LEVEL) -> bytes:
    """The body as gzip: the same bytes for the same body."""
    return gzip.compress(body, level, mtime=0)


def compress(
    request: HttpRequest, response: HttpResponse, packed: Callable[[bytes], bytes] = pack
) -> None:
    """Compress a complete response by `packed`, unless it is small or the client does not accept
    that. Its ETag becomes weak, because that of the plain body is the same.
    """
    accepted = ACCEPTED.search(request.META.get("HTTP_ACCEPT_ENCODING", ""))
    if not accepted or len(response.content) < LEAST or "Content-Encoding" in response:
        return
    response.content = packed(response.content)
    response["Content-Length"] = str(len(response.content))
    response["Content-Encoding"], response["ETag"] = "gzip", f"W/{response['ETag']}"
