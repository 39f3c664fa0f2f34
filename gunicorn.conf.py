"""What gunicorn reads when it is started in this folder, whatever its worker."""

from typing import Any

from config.server import end_silent


def when_ready(server: Any) -> None:
    """Connections get the options of the socket that accepts them."""
    for listener in server.LISTENERS:
        end_silent(listener.sock)
