"""Lines of the log: the id of their request, and their form as JSON."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from apps.core import json
from apps.core.request_ids import current, without_invites


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


class JsonFormatter(logging.Formatter):
    """One object per line. A line whose values have names has these instead of a message."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
        }
        if request_id := getattr(record, "request_id", ""):
            line["request_id"] = request_id
        is_named = isinstance(record.args, dict)
        line |= record.args if is_named else {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line).decode()
