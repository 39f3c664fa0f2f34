"""Searches for how something begins: they go along an index, in both databases."""

from __future__ import annotations

import uuid

from django.db import connection
from django.db.models import Q

LAST = chr(0x10FFFF)
"""Sorts behind every text that goes on after a prefix."""
HEX = frozenset("0123456789abcdef")


def begins(field: str, text: str) -> Q:
    """Rows whose field begins with this text, in binary order.

    PostgreSQL has an index of patterns; SQLite, whose LIKE asks none here, is given the range.
    """
    if connection.vendor == "sqlite":
        return Q((f"{field}__gte", text), (f"{field}__lt", text + LAST))
    return Q((f"{field}__startswith", text))


def uuid_begins(text: str, *, least: int = 1) -> Q:
    """Rows whose `uuid` begins with these hexadecimal digits, dashes aside.

    None where the text is something else, or has fewer digits than `least`.
    """
    digits = text.replace("-", "").lower()
    if not least <= len(digits) <= 32 or not set(digits) <= HEX:
        return Q(pk=None)
    first, last = (uuid.UUID(digits.ljust(32, digit)) for digit in "0f")
    return Q(uuid__gte=first, uuid__lte=last)
