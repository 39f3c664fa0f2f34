"""Lines of the log: the id of their request, and their form as JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from apps.core.request_ids import current, without_invites

CONTROLS = {number: repr(chr(number))[1:-1] for number in (*range(32), *range(127, 160), 0x2028)}
"""Escapes of characters that could begin a line or change a terminal."""


class RequestId(logging.Filter):
    """Sets `request_id` and, for lines of text, `about`. Hides invites in the paths that Django
    logs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        request = current.get()
        record.request_id = request.id if request else ""
        record.about = f" (request {request.id})" if request else ""
        if record.name == "django.request":
            record.msg, record.args = without_invites(record.getMessage()), None
        return True


class TextFormatter(logging.Formatter):
    """Lines for people, with times in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s%(about)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(CONTROLS)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return time_of(record)


class JsonFormatter(logging.Formatter):
    """One object per line. A line whose values have names has these instead of a message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time_of(record),
            "level": record.levelname,
            "logger": record.name,
        }
        if request_id := getattr(record, "request_id", ""):
            line["request_id"] = request_id
        if isinstance(record.args, dict):
            line |= record.args
        else:
            line["message"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"), default=str)


def time_of(record: logging.LogRecord) -> str:
    """The time of a line, such as `2026-05-04T09:08:07.123Z`."""
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    return f"{second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=1)
def second(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S")
