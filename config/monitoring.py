"""The address `METRICS_ADDRESS`: `/metrics`, `/healthz` and `/readyz` for operators.

The process that starts workers listens before it forks, and each worker accepts: one that dies
leaves the address to the others. Importing this module needs no Django.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from apps.core import metrics, tracing
from config.environment import Address

SILENCE = 10
"""Seconds after which a client that sends or receives nothing is disconnected."""
LEFT_TO_OTHERS = 0.1
"""Seconds in which another worker may take a request from one that ends."""
MEMORY = Path("/dev/shm")  # noqa: S108 - the folder has a mode, and must be new
"""Files that a process maps: on a full disk, writing to them would kill it (SIGBUS)."""

logger = logging.getLogger(__name__)


class Monitoring:
    """The listening socket and the folder of counts, which forked workers inherit."""

    def __init__(self) -> None:
        self.listening: socket.socket | None = None
        self.folder = Path()

    def listen(self, address: Address | None, offset: int = 0) -> str:
        """Listen, `offset` ports above the address, and make an empty folder. Returns a line for
        people; "" without an address. Exits if the address is not available.
        """
        if address is None:
            return ""
        port = address.port and address.port + offset
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self.listening = socket.create_server((address.host, port), family=family)
            self.listening.setblocking(False)
            host, port = self.listening.getsockname()[:2]
            self.folder = _folder(f"guildhall-metrics-{host}-{port}")
        except OSError as error:
            sys.exit(f"METRICS_ADDRESS: cannot listen at {address.host}:{port}: {error}")
        return f"Metrics are at http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def start(self) -> None:
        """Count and answer in this process. Call it after the fork, with Django set up."""
        from django.conf import settings

        if settings.SENDS_SPANS:
            tracing.start()
        if self.listening is not None:
            if self.folder.is_dir():
                metrics.start(self.folder)
            else:  # such as by systemd-logind, if the person has logged out
                logger.warning("%s was removed: restart to have metrics again", self.folder)
            server = MonitoringServer(self.listening)
            Thread(target=server.serve_forever, name="monitoring", daemon=True).start()

    def end(self) -> None:
        """Remove the folder, in the process that made it."""
        if self.listening is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _folder(name: str) -> Path:
    """An empty folder for this user only. The address belongs to this process: one that had it
    before has ended.
    """
    is_usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    folder = (MEMORY if is_usable else Path(tempfile.gettempdir())) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    timeout = SILENCE

    def do_GET(self) -> None:
        status, kind, content = answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *args: Any) -> None:
        """Log no lines for requests."""


def answer(path: str) -> tuple[int, str, bytes]:
    """Status, content type and body. The modules need Django, which is set up by now."""
    if path == "/healthz":
        return 200, "text/plain", b"ok\n"
    if path == "/readyz":
        from apps.core import json
        from config.readiness import readiness

        state = readiness.state()
        return state.status, "application/json", json.dumps(state.record())
    if path == "/metrics":
        from config.site_metrics import CONTENT_TYPE, exposition

        return 200, CONTENT_TYPE, exposition(monitoring.folder)
    return 404, "text/plain", b"/metrics, /healthz, /readyz\n"


class MonitoringServer(ThreadingHTTPServer):
    """Accepts at a socket that other workers have too."""

    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept. During a reload the new workers answer, not those that end."""
        from config.readiness import readiness

        if readiness.is_draining:
            time.sleep(LEFT_TO_OTHERS)
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.warning("A request to METRICS_ADDRESS failed", exc_info=True)


monitoring = Monitoring()
