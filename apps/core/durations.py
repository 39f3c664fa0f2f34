"""Durations and times in the forms that people write."""

from __future__ import annotations

import datetime as dt
import re

from django.utils import timezone
from django.utils.dateparse import parse_datetime

DAY = 86400.0
UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": DAY,
    "w": 7 * DAY,
    "M": 30.44 * DAY,
    "y": 365.25 * DAY,
}
LONG = {
    "nano": "ns",
    "nsec": "ns",
    "usec": "us",
    "milli": "ms",
    "msec": "ms",
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hr": "h",
    "hour": "h",
    "day": "d",
    "wk": "w",
    "week": "w",
    "month": "M",
    "yr": "y",
    "year": "y",
}
LONGEST = dt.timedelta(days=3652.5)
PART = re.compile(r"\s*([0-9]{1,12})\s*([A-Za-zµ]+)\s*", re.ASCII)
ANY_CASE = ("".join(f"[{letter.upper()}{letter}]" for letter in f"{word}s") for word in LONG)
UNIT = "|".join([*UNITS, *(f"{word}?" for word in ANY_CASE)])
DURATION = rf"(?:[ \t\n\v\f\r]*[0-9]{{1,12}}[ \t\n\v\f\r]*(?:{UNIT}))+[ \t\n\v\f\r]*"
"""Regular expression of a duration, for the OpenAPI document."""
FORM = (
    rf"{DURATION}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
"""Regular expression of a duration, or a time with offset, for the OpenAPI document."""
EXPECTED = 'a duration such as "3 days" or "1h 30m", of at most 10 years'


def parse_duration(text: str) -> dt.timedelta:
    """A sum of `<int><unit>`, 0 s to 10 years; `m` is minutes, `M` months. Else `ValueError`."""
    total, position = 0.0, 0
    while part := PART.match(text, position):
        total += int(part[1]) * _seconds(part[2])
        position = part.end()
    if not text.strip() or position != len(text) or total > LONGEST.total_seconds():
        raise ValueError(f"Must be {EXPECTED}.")
    return dt.timedelta(seconds=total)


def _seconds(unit: str) -> float:
    if unit in UNITS:
        return UNITS[unit]
    word = LONG.get(unit.lower()) or LONG.get(unit.lower().removesuffix("s"))
    if word is None:
        raise ValueError(f'"{unit}" is no unit; use {", ".join(UNITS)}.')
    return UNITS[word]


def parse_future(text: str) -> dt.datetime:
    """A duration from now, or an ISO 8601 time with offset; `ValueError` unless in the future."""
    now = timezone.now()
    time = _iso(text) if "-" in text or ":" in text else now + parse_duration(text)
    if time <= now:
        raise ValueError("Must be in the future.")
    return time


def parse_past(text: str) -> dt.datetime:
    """A duration before now, or an ISO 8601 time with offset; `ValueError`."""
    if "-" in text or ":" in text:
        return _iso(text)
    try:
        return timezone.now() - parse_duration(text)
    except OverflowError:
        raise ValueError("Is out of range.") from None


def _iso(text: str) -> dt.datetime:
    time = parse_datetime(text.replace("z", "Z"))
    if time is None or time.tzinfo is None:
        raise ValueError(f"Must be an ISO 8601 time with an offset, or {EXPECTED}.")
    try:
        return time.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError("Is out of range.") from None
