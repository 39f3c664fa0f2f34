"""Reports of logged errors to Sentry, if SENTRY_DSN is set.

Reports come from the log alone; the SDK sees no request. They are then reduced to fields without
secrets (docs/decisions/0024-error-reports-without-values.md).
"""

from __future__ import annotations

import logging
from typing import Any

from apps.core.request_ids import current

FIELDS = (
    "event_id",
    "timestamp",
    "level",
    "platform",
    "logger",
    "release",
    "environment",
    "server_name",
    "sdk",
)
FRAME = (
    "abs_path",
    "filename",
    "module",
    "function",
    "lineno",
    "pre_context",
    "context_line",
    "post_context",
    "in_app",
)
"""Fields of a report and of a line of a traceback that are sent. Source code is no secret."""
CONSTANT = ("apps.", "config.")
"""Loggers whose messages are constants before their arguments are filled in."""
REQUESTS = "django.request"
"""Django's logger for a 500. Its second line, of the answer that middleware made, has no error."""


def start(dsn: str) -> None:
    """Report errors that this process logs from now on, by a thread of the SDK."""
    import sentry_sdk
    from sentry_sdk.integrations.atexit import AtexitIntegration
    from sentry_sdk.integrations.logging import LoggingIntegration

    sentry_sdk.init(
        dsn=dsn,
        default_integrations=False,
        integrations=[
            LoggingIntegration(level=None, event_level=logging.ERROR),
            AtexitIntegration(callback=lambda pending, timeout: None),
        ],
        before_send=reduced,
        send_default_pii=False,
        include_local_variables=False,
        max_breadcrumbs=0,
        auto_session_tracking=False,
        send_client_reports=False,
    )


def reduced(event: Any, hint: Any) -> Any:
    """A new report with the fields that cannot have a secret; None to send none.

    The texts of exceptions are left out: they quote values, such as addresses in a violated
    constraint. The log has them, at the same request id.
    """
    report = {name: event[name] for name in FIELDS if name in event}
    exceptions = event.get("exception", {}).get("values", [])
    if not exceptions and event.get("logger") == REQUESTS:
        return None
    report["exception"] = {"values": [without_values(exception) for exception in exceptions]}
    if str(event.get("logger")).startswith(CONSTANT):
        report["message"] = event.get("logentry", {}).get("message", "")
    if request := current.get():
        report["tags"] = {"request_id": request.id}
    return report


def without_values(exception: Any) -> dict[str, Any]:
    """The type and the traceback of an exception."""
    frames = (exception.get("stacktrace") or {}).get("frames", [])
    return {
        "type": exception.get("type"),
        "module": exception.get("module"),
        "stacktrace": {
            "frames": [{name: frame[name] for name in FRAME if name in frame} for frame in frames]
        },
    }
