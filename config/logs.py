"""Adds the id of the request to lines of the log."""

from __future__ import annotations

import logging


class RequestId(logging.Filter):
    """Sets `about`: for a line about a request, the id that its error page shows."""

    def filter(self, record: logging.LogRecord) -> bool:
        request_id = getattr(getattr(record, "request", None), "id", "")
        record.about = f" (request {request_id})" if request_id else ""
        return True
