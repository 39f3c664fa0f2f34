"""Settings for gunicorn, which reads this file when it is started in this folder."""

from pathlib import Path
from typing import Any

from apps.site.counters import process_counters
from config.environment import Environment
from config.monitoring import monitoring
from config.server import FIELD_LIMIT, KEEPALIVE, LINE_LIMIT, SHARED, allow_many_files, end_silent

# Headers for the path of the application behind a proxy: gunicorn would accept them from any
# client if the proxy passes them on.
forwarder_headers = ""
keepalive = KEEPALIVE
# An invalid setting ends the start here, with all messages at once.
environment = Environment(Path(__file__).parent)
workers = environment.workers
# Long enough for a large clone.
graceful_timeout = environment.graceful_timeout
limit_request_line = LINE_LIMIT
limit_request_field_size = FIELD_LIMIT


pre_fork, child_exit = SHARED["pre_fork"], SHARED["child_exit"]


def on_starting(server: Any) -> None:
    """Let the workers count requests together, and listen for operators."""
    process_counters()
    # The services on one machine have the same settings.
    offset = 1 if server.cfg.worker_class_str == "asgi" else 0
    if line := monitoring.listen(environment.metrics_address, offset):
        server.log.info(line)


def on_exit(server: Any) -> None:
    monitoring.end()


def when_ready(server: Any) -> None:
    """Set options of the sockets, which their connections inherit, and limits for the workers."""
    allow_many_files()
    for listener in server.LISTENERS:
        end_silent(listener.sock)


def post_worker_init(worker: Any) -> None:
    """Tell the application its number of threads, which it cannot find out; start metrics."""
    from apps.repos.http.transfer_slots import process_slots

    # Under gthread a request of git occupies a thread until its client has received the last byte.
    if worker.cfg.worker_class_str == "gthread":
        process_slots.leave_threads(worker.cfg.threads)
    SHARED["post_worker_init"](worker)
