"""JSON for answers, stream frames and request bodies."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from typing import Any

import orjson

OTHER_FORM = re.compile(rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|(?:\.\d{6})?[+-]\d\d:\d\d)"')
"""A time that orjson writes in another form: a whole second, or one that is not in UTC."""


def timestamp(time: dt.datetime) -> str:
    """UTC with `Z` and microseconds, even if they are zero."""
    return time.astimezone(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _default(value: object) -> str:
    if isinstance(value, dt.datetime):
        return timestamp(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON of dict, list, str, int, bool, None, UUID, StrEnum and datetime.

    orjson writes times ten times as fast as `timestamp`, and in the same form but for those that
    `OTHER_FORM` matches. A naive time would count as UTC; there is none.
    """
    text = orjson.dumps(value, None, orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC)
    if OTHER_FORM.search(text):
        return orjson.dumps(value, _default, orjson.OPT_PASSTHROUGH_DATETIME)
    return text


def canonical(value: object) -> bytes:
    """JSON with sorted keys: equal objects give the same text."""
    return orjson.dumps(value, None, orjson.OPT_SORT_KEYS)


def quoted(text: str, max_length: int = 100) -> str:
    """A client's text as a JSON string for a message; cut after `max_length` characters."""
    string = dumps(text[:max_length]).decode()
    return string if len(text) <= max_length else f'{string[:-1]}…"'


def loads(text: bytes) -> Any:
    """Parse strictly: no NaN, no bad UTF-8, no lone surrogate, bounded depth.

    Raises `ValueError`.
    """
    return orjson.loads(text)


def loads_body(text: bytes) -> Any:
    """As `loads`, for a client's text, in which no object may repeat a key.

    orjson would silently take the last one. It has limited the depth for the standard parser.
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
