"""Headers for bytes that people have stored, so that no browser runs any of them."""

from __future__ import annotations

from django.utils.http import content_disposition_header

from apps.core.conditional import CACHE_CONTROL

INERT = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": CACHE_CONTROL,
}
"""Opened by itself, such content runs nothing, loads nothing and is taken for no other type."""


def inert_headers(
    content_type: str, filename: str = "", *, is_attachment: bool = False
) -> dict[str, str]:
    """`INERT` with the type and, if there is a filename, the Content-Disposition."""
    disposition = content_disposition_header(is_attachment, filename)
    named = {"Content-Disposition": disposition} if disposition else {}
    return {"Content-Type": content_type, **INERT, **named}
