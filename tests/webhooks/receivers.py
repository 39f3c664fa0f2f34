"""Receivers of webhooks: real servers of the test, each at an address of this machine."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson
from standardwebhooks import Webhook as Verifier

Answer = int | tuple[int, dict[str, str], bytes]


@dataclass
class Received:
    """A request as the receiver has read it."""

    path: str
    headers: dict[str, str]
    body: bytes
    answer: int = 0
    """The status of the answer; 0 before it."""

    @property
    def event_id(self) -> int:
        return int(self.headers["webhook-id"].removeprefix("evt_"))

    @property
    def record(self) -> dict[str, Any]:
        """The payload."""
        record: dict[str, Any] = orjson.loads(self.body)
        return record

    def verify(self, secret: str) -> None:
        """Raises an error unless the signature is valid by the package of the specification."""
        Verifier(secret).verify(self.body, self.headers)

    def verify_at_any_time(self, secret: str) -> None:
        """The same, but the request may be older than the package allows."""
        sent_at = dt.datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), dt.UTC)
        signature = Verifier(secret).sign(self.headers["webhook-id"], sent_at, self.body.decode())
        assert signature in self.headers["webhook-signature"].split()


@dataclass
class Receiver:
    """`with Receiver() as receiver:` answers at `url` by `answer`, which gets each request."""

    answer: Callable[[Received], Answer] = lambda _: 204
    host: str = "127.0.0.1"
    port: int = 0
    requests: list[Received] = field(default_factory=list)
    connections: int = 0

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                receiver.connections += 1

            def do_POST(self) -> None:
                receiver.handle(self)

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 200

            def handle_error(self, *args: Any) -> None:
                """The client may leave at any time."""

        self.server = Server((self.host, self.port), Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    @property
    def ids(self) -> list[int]:
        """The ids of all received events, in order."""
        return [request.event_id for request in self.requests]

    @property
    def accepted(self) -> list[int]:
        """The ids of the events that were answered by 2xx, in order."""
        return [request.event_id for request in self.requests if 200 <= request.answer < 300]

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["Content-Length"])
        body = handler.rfile.read(length)
        if len(body) < length:  # the client was killed while it sent
            handler.close_connection = True
            return
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Received(handler.path, headers, body)
        self.requests.append(request)
        answer = self.answer(request)
        status, more, content = answer if isinstance(answer, tuple) else (answer, {}, b"")
        request.answer = status
        handler.send_response(status)
        for name, value in more.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def first_arrivals(ids: list[int]) -> list[int]:
    """These ids without repetitions, in the order of their first arrival."""
    return list(dict.fromkeys(ids))
