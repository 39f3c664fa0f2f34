"""Control characters, which make a name look like another one."""

from __future__ import annotations

import re

CONTROLS = "control characters, invisible characters or marks that turn the direction of text"
CHARACTERS = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
"""Joiners and variation selectors are not among them, because emoji and some scripts need them."""
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
