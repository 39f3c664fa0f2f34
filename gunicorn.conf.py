"""What gunicorn reads when it is started in this folder, whatever its worker."""

from typing import Any

from config.server import FIELD_LIMIT, KEPT_OPEN, LINE_LIMIT, allow_many_files, end_silent

# Headers by which a proxy may say where the application begins: gunicorn would take them from
# any client of a proxy that lets them through.
forwarder_headers = ""
keepalive = KEPT_OPEN
limit_request_line = LINE_LIMIT
limit_request_field_size = FIELD_LIMIT


def when_ready(server: Any) -> None:
    """Connections get the options of the socket that accepts them, and workers the limits."""
    allow_many_files()
    for listener in server.LISTENERS:
        end_silent(listener.sock)
