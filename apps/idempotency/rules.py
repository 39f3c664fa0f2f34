"""What an `Idempotency-Key` may be, and which refusals are no answer for good."""

from __future__ import annotations

import re

from apps.core.errors import ApiError, Conflict, Invalid

HEADER = "Idempotency-Key"
BARE = re.compile(r"[!#-~][ -~]{0,254}")
QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\]){1,255})"')
"""A string as in RFC 8941: in quotes, with `\\` before a quote and before itself."""


def read_key(sent: str) -> str:
    """The key that a header holds, in quotes or as it is; 422 for what is none."""
    if BARE.fullmatch(sent):
        return sent
    quoted = QUOTED.fullmatch(sent)
    if quoted is None:
        text = f"{HEADER}: Must be 1 to 255 printable ASCII characters, in quotes or without."
        raise Invalid("validation_failed", text)
    return re.sub(r"\\(.)", r"\1", quoted[1])


def is_passing(refusal: ApiError) -> bool:
    """Whether the same request may well succeed in a moment, or by somebody who shows who they are:
    such an answer is not kept.
    """
    status = refusal.status
    return status >= 500 or status in {401, 429} or "Retry-After" in refusal.headers


def in_progress() -> Conflict:
    """409 while the first request with this key has no answer yet, or another has taken it over."""
    text = "A request with this Idempotency-Key is under way. Send it again in a moment."
    return Conflict("idempotency_in_progress", text, headers={"Retry-After": "1"})


def mismatch() -> Invalid:
    """422 for a key that its sender has used for something else."""
    text = "This Idempotency-Key was sent before, with another body. Use a new one."
    return Invalid("idempotency_mismatch", text)
