"""Control characters, which make a name look like another one."""

from __future__ import annotations

import re

CONTROLS = "control characters or marks that turn the direction of text"
CHARACTERS = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{CHARACTERS}]")
NO_CONTROLS = f"[^{CHARACTERS}]*"
"""Regular expression of a name without control characters."""


def name_problem(name: str) -> str | None:
    """Why this is not a valid name or title; None if it is."""
    return f"This contains {CONTROLS}." if has_controls(name) else None


def without_controls(text: str) -> str:
    """The text without control characters."""
    return _CONTROL.sub("", text)


def has_controls(name: str) -> bool:
    """Whether a name has control characters."""
    return _CONTROL.search(name) is not None
