"""The bytes of the live stream. Pure: knows neither events nor people."""

from __future__ import annotations

import re

OPENING = b": ok\n\nretry: 0\n\n"
HEARTBEAT = b": heartbeat\n\n"
LINE_END = re.compile(rb"\r\n|\r|\n")


def frame(event_id: int, kind: str, data: bytes) -> bytes:
    """One event: its id, its kind, and a `data` line for each line of the payload."""
    lines = b"".join(b"data: %b\n" % line for line in LINE_END.split(data))
    return b"id: %d\nevent: %b\n%b\n" % (event_id, kind.encode(), lines)
