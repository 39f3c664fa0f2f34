"""The one JSON writer and reader: answers, stream frames and request bodies agree by it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from typing import Any

import orjson

WRITTEN_APART = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|(?:\.\d{6})?[+-]\d\d:\d\d)"')
"""How orjson ends a time of a whole second, or one that is not in UTC."""


def timestamp(moment: dt.datetime) -> str:
    """UTC with `Z` and microseconds, also when they are zero."""
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _default(value: object) -> str:
    if isinstance(value, dt.datetime):
        return timestamp(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON. Knows dict, list, str, int, bool, None, UUID, StrEnum and datetime.

    orjson writes times ten times as fast as `timestamp`, all alike but those of `WRITTEN_APART`.
    A naive time counts as UTC; there is none.
    """
    text = orjson.dumps(value, None, orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC)
    if WRITTEN_APART.search(text):
        return orjson.dumps(value, _default, orjson.OPT_PASSTHROUGH_DATETIME)
    return text


def canonical(value: object) -> bytes:
    """The same text for all objects that are equal as JSON, whatever the order of properties."""
    return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)


def quoted(text: str, most: int = 100) -> str:
    """A client's text as a JSON string for a line of ours; cut after `most` characters."""
    shown = dumps(text[:most]).decode()
    return shown if len(text) <= most else f'{shown[:-1]}…"'


def loads(text: bytes) -> Any:
    """Parse strictly: no NaN, no bad UTF-8, no lone surrogate, bounded depth.

    Raises `ValueError`.
    """
    return orjson.loads(text)


def loads_body(text: bytes) -> Any:
    """The same for a client's text, in which no object may name a key twice.

    orjson keeps the last of them without a word, and bounds the depth for the standard parser.
    """
    value = loads(text)
    try:
        KEYS.decode(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {quoted(key)} more than once")


KEYS = json.JSONDecoder(object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)
