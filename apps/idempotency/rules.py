"""Rules about an `Idempotency-Key`, and about the refusals that are stored."""

from __future__ import annotations

import re

from apps.core.errors import ApiError, Conflict, Invalid

HEADER = "Idempotency-Key"
BARE = re.compile(r"[!#-~][ -~]{0,254}")
QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\]){1,255})"')
"""A string of RFC 8941: in quotes, with `\\` before a quote or a backslash."""


def read_key(sent: str) -> str:
    """The key in a header, with or without quotes; 422 if it is invalid."""
    if BARE.fullmatch(sent):
        return sent
    quoted = QUOTED.fullmatch(sent)
    if quoted is None:
        text = f"{HEADER}: Must be 1 to 255 printable ASCII characters, with or without quotes."
        raise Invalid("validation_failed", text)
    return re.sub(r"\\(.)", r"\1", quoted[1])


def is_passing(refusal: ApiError) -> bool:
    """Whether the same request may succeed later or with valid credentials. Such a refusal is not
    stored.
    """
    status = refusal.status
    return status >= 500 or status in {401, 429} or "Retry-After" in refusal.headers


def in_progress() -> Conflict:
    """409 for a request that another process works on, or has taken over."""
    text = "A request with this Idempotency-Key is in progress. Send it again in a moment."
    return Conflict("idempotency_in_progress", text, headers={"Retry-After": "1"})


def mismatch() -> Invalid:
    """422 for a key that was sent before with another body."""
    text = "This Idempotency-Key was sent before with another body. Use a new one."
    return Invalid("idempotency_mismatch", text)
