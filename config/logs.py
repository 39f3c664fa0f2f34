"""What lines of the log say of the request that they are about."""

from __future__ import annotations

import logging


class RequestId(logging.Filter):
    """Adds `about`: the id that the page of an error shows, where a line is about a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        found = getattr(getattr(record, "request", None), "id", "")
        record.about = f" (request {found})" if found else ""
        return True
