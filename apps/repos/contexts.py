"""The names of statuses of commits, which protections may require."""

from __future__ import annotations

import re

CONTEXT_MAX = 100
CONTEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""ASCII without control characters, and without spaces at the ends."""


def context_problem(text: str) -> str | None:
    """The reason why this cannot be the context of a status; None if it can."""
    if CONTEXT.fullmatch(text):
        return None
    return "Must be printable ASCII, without spaces at the ends."
