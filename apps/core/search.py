"""Text searches with the same results in both databases."""

from __future__ import annotations

import re
import uuid

from django.db import connection
from django.db.models import BooleanField, Func, Q, Value

LAST = chr(0x10FFFF)
"""The last character: a prefix with it sorts behind every text with that prefix."""
HEX = frozenset("0123456789abcdef")
TRIGRAM = re.compile(r"[^\W_]{3}")
"""pg_trgm finds texts with three letters or digits in a row."""


class TextParts(Func):
    """The letters of a text and its pairs of adjacent letters, in upper case; PostgreSQL only."""

    template = "text_parts(UPPER(%(expressions)s))"


class HasParts(Func):
    """Whether the parts of the first text include those of the second."""

    template = "%(expressions)s"
    arg_joiner = " @> "
    output_field = BooleanField()


def begins(field: str, text: str) -> Q:
    """Rows whose field begins with this text, in binary order, by an index.

    PostgreSQL uses an index for patterns. SQLite's LIKE would use none, hence the range.
    """
    if connection.vendor == "sqlite":
        return Q((f"{field}__gte", text), (f"{field}__lt", text + LAST))
    return Q((f"{field}__startswith", text))


def holds(field: str, text: str) -> Q:
    """Rows whose field contains this text, ignoring case."""
    return _ignoring_case(field, text, "icontains", re.escape(text))


def title_holds(field: str, text: str) -> Q:
    """The same for a thread's title, by an index on PostgreSQL, also for texts without trigrams."""
    if connection.vendor == "sqlite" or TRIGRAM.search(text):
        return holds(field, text)
    return holds(field, text) & Q(HasParts(TextParts(field), TextParts(Value(text))))


def is_called(field: str, text: str) -> Q:
    """Rows whose field equals this text, ignoring case."""
    return _ignoring_case(field, text, "iexact", rf"\A{re.escape(text)}\Z")


def _ignoring_case(field: str, text: str, lookup: str, pattern: str) -> Q:
    """SQLite's LIKE ignores the case of ASCII letters only; its REGEXP is Python's, and slower."""
    if connection.vendor == "sqlite" and not text.isascii():
        return Q((f"{field}__iregex", pattern))
    return Q((f"{field}__{lookup}", text))


def uuid_begins(text: str, *, least: int = 1) -> Q:
    """Rows whose `uuid` begins with these hexadecimal digits; dashes do not count.

    No rows for any other text, or for fewer digits than `least`.
    """
    digits = text.replace("-", "").lower()
    if not least <= len(digits) <= 32 or not set(digits) <= HEX:
        return Q(pk=None)
    first, last = (uuid.UUID(digits.ljust(32, digit)) for digit in "0f")
    return Q(uuid__gte=first, uuid__lte=last)
