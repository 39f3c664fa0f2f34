"""Limits of request bodies: memory for all bodies of this process, and the time to receive one."""

from __future__ import annotations

from apps.core.errors import BadRequest, Unavailable, unavailable
from apps.core.slots import Slots

FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small ones are always accepted."""
UPLOAD_LIMIT = 14 * 1024 * 1024
"""Bytes of a request with a file: 10 MiB are 13.4 MiB in base64."""
LONGEST = 120
"""Seconds in which a body must arrive, unless it is a push."""


def too_slow(seconds: float) -> BadRequest:
    """400 for a body that arrives too slowly."""
    return BadRequest("malformed_request", f"The body took longer than {seconds} s to arrive.")


def no_memory(full: str) -> Unavailable:
    """503 if the bodies of all callers, or of this caller, take too much memory."""
    return unavailable()


body_memory = Slots(256 * 1024 * 1024, 64 * 1024 * 1024, free=FREE, refusal=no_memory)
upload_memory = Slots(84 * 1024 * 1024, 42 * 1024 * 1024, free=FREE, refusal=no_memory)
"""For bodies with a file, six of the largest: decoding one takes about three times its size. They
are counted separately and take no memory from other bodies.
"""
