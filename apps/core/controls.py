"""Characters that make a name look like another one."""

from __future__ import annotations

import re

CONTROLS = "control characters or marks that turn the direction of text"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def has_controls(name: str) -> bool:
    """Whether a name has `CONTROLS`."""
    return _CONTROL.search(name) is not None
