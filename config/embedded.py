"""The server of the embedded mode and of `runserver`: daphne, with flat memory and a quick end.

Stock daphne hands the application a whole request body at once, never waits for a slow reader,
and does not survive every way to end (engine.md §1 and §4). Importing this installs Twisted's
reactor, so that nothing but the two commands does.
"""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from http.client import responses
from pathlib import Path
from typing import IO, Any

from daphne.endpoints import build_endpoint_description_strings
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server as Daphne
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.logger import globalLogBeginner
from twisted.web.http import HTTPChannel

from apps.core import json
from apps.core.errors import plain_error

PIECE = 64 * 1024
"""Bytes of a request body handed over at once."""
MIB = 1024 * 1024
PUSH, PUSH_LIMIT = b"/git-receive-pack", 2 * 1024 * MIB + MIB
BODY_LIMIT = 16 * MIB
"""Bytes kept of a body; nobody reads more: git takes packs up to 2 GiB, all else is smaller."""
GRACE = 1.0
"""Seconds that interrupted requests get to clean up when the server ends."""

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
reactor: Any = installed_reactor
logger = logging.getLogger(__name__)


class Request(WebRequest):  # type: ignore[misc]
    """One request. Also the producer that its connection pauses while a client reads slowly."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.writable = asyncio.Event()
        self.writable.set()
        super().__init__(*args, **options)
        self._parsePOSTFormSubmission = False  # Django reads forms, and within limits
        self.kept = 0

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        """Twisted does not know the words for every status, such as 422."""
        super().setResponseCode(code, message or responses.get(code, "").encode())

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a body up to its limit and one byte more, by which its reader sees that it is too
        large; the rest is let go. A push waits here as a whole before anybody asks who sends it.
        """
        path = self.channel._path.partition(b"?")[0]
        limit = PUSH_LIMIT if path.endswith(PUSH) else BODY_LIMIT
        room = limit + 1 - self.kept
        if room > 0:
            self.kept += len(data[:room])
            super().handleContentChunk(data[:room])

    def process(self) -> Any:
        """Hand the request to the application; there are no WebSockets here."""
        self.requestHeaders.removeHeader(b"upgrade")
        return super().process()

    def pauseProducing(self) -> None:
        self.writable.clear()

    def resumeProducing(self) -> None:
        self.writable.set()

    def stopProducing(self) -> None:
        self.writable.set()

    def connectionLost(self, reason: Any) -> None:
        self.writable.set()
        super().connectionLost(reason)

    def finish(self) -> None:
        self.writable.set()
        if self.producer:
            self.unregisterProducer()
        super().finish()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Answer what never reaches the application; under `/api/` with ErrorBody."""
        if self._response_started or not self.uri.startswith(b"/api/"):
            super().basic_error(status, status_text, body)
            return
        headers = [(b"Content-Type", b"application/json")]
        text = json.dumps(plain_error(status).body())
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": text})


class Channel(HTTPChannel):
    """One connection."""

    transport: Any

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Explain even what is no request, for whose path nobody can ask."""
        text = json.dumps(plain_error(400).body())
        head = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(text)
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\n%bConnection: close\r\n\r\n%b" % (head, text)
        )
        self.transport.loseConnection()


class Factory(HTTPFactory):  # type: ignore[misc]
    protocol = Channel

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol


class Server(Daphne):  # type: ignore[misc]
    """Listens when told to, so that a taken port is known before anything else happens."""

    refusal = ""
    """Why it cannot listen."""

    @classmethod
    def at(cls, application: Any, host: str, port: int) -> Server:
        """A server that listens already, but answers only once it runs. Port 0: any free one.

        Raises CommandError when the address is not to be had.
        """
        server = cls(application, build_endpoint_description_strings(host=host, port=port))
        server.listen()
        return server

    def listen(self) -> None:
        self.connections: dict[Request, dict[str, Any]] = {}
        for description in self.endpoints:
            listening: Any = serverFromString(reactor, description).listen(Factory(self))  # type: ignore[no-untyped-call]
            self.listeners.append(listening)
            listening.addCallbacks(self.listen_success, self.listen_error)
        if self.refusal:
            raise CommandError(self.refusal)

    def listen_success(self, port: Any) -> None:
        """Stream frames carry the address that the server was started on (behaviour.md §10)."""
        super().listen_success(port)
        host, settings.PORT = self.listening_addresses[-1]
        settings.HOST = f"[{host}]" if ":" in host else host

    def listen_error(self, failure: Any) -> None:
        error = failure.value
        self.refusal = (
            f"Cannot listen at {getattr(error, 'interface', settings.HOST)}:"
            f"{getattr(error, 'port', settings.PORT)}: {getattr(error, 'socketError', error)}. "
            "Choose another port with PORT=8001, say."
        )

    def run(self) -> None:
        """Serve until a signal ends it."""
        if self.signal_handlers:
            end_at_signals()
        if not self.listeners:
            self.listen()
        silent: Any = [lambda _: None]  # what goes wrong here reaches Python's own log
        globalLogBeginner.beginLoggingTo(silent, redirectStandardIO=False, discardBuffer=True)
        reactor.callLater(1, self.application_checker)
        asyncio.set_event_loop(reactor._asyncioEventloop)
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        reactor.run(installSignalHandlers=False)
        fold_journal()
        gc.freeze()  # the interpreter would look through all that was ever loaded before it ends

    def create_application(self, protocol: Request, scope: Message) -> asyncio.Queue[Message]:
        """Start the application on a request whose body it reads piece by piece.

        The body is taken away from daphne, which finds an empty one to put into the queue.
        """
        body, protocol.content = protocol.content, io.BytesIO()
        protocol.registerProducer(protocol, True)
        queue: asyncio.Queue[Message] = asyncio.Queue()
        scope["asgi"] = {"version": "3.0"}
        self.connections[protocol]["application_instance"] = asyncio.ensure_future(
            self.answer(protocol, scope, body, queue)
        )
        return queue

    async def answer(
        self, protocol: Request, scope: Message, body: IO[bytes], queue: asyncio.Queue[Message]
    ) -> None:
        """Run the application. However it ends, the client is not left waiting."""
        try:
            await self.application(scope, body_of(body, queue), partial(self.send, protocol))
        except Exception:
            logger.exception("The application failed on %s", scope["path"])
            if not protocol._response_started:
                protocol.basic_error(500, b"Internal Server Error", "Something went wrong.")
        finally:
            body.close()
            if not protocol.finished:
                protocol.loseConnection()

    async def send(self, protocol: Request, message: Message) -> None:
        """Pass on what the application sends, and make it wait while the connection is full."""
        await self.handle_reply(protocol, message)
        await protocol.writable.wait()

    def kill_all_applications(self) -> Deferred[Any] | None:
        """Interrupt whatever runs, open streams among it."""
        running = [
            details["application_instance"]
            for details in self.connections.values()
            if "application_instance" in details
        ]
        for task in running:
            task.cancel()
        if not running:
            return None
        return Deferred.fromFuture(asyncio.ensure_future(asyncio.wait(running, timeout=GRACE)))


def end_at_signals() -> None:
    """Let Ctrl-C and SIGTERM end the server, however early they come.

    Twisted begins to handle them while it starts, and loses a KeyboardInterrupt until then.
    """

    def end(*_: object) -> None:
        reactor.callFromThread(reactor.stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def fold_journal() -> None:
    """Leave a SQLite database whole in its one file at the end.

    The last connection that is closed would do so, but threads for which nobody waits still have
    theirs. Whoever is writing then, another process perhaps, is waited for a moment only.
    """
    if connection.vendor != "sqlite":
        return
    there = f"{Path(connection.settings_dict['NAME']).absolute().as_uri()}?mode=rw"
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(there, uri=True, timeout=0.25)) as database,
    ):
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def body_of(body: IO[bytes], queue: asyncio.Queue[Message]) -> Receive:
    """The application's `receive`: the body in pieces, then whatever the connection has to say."""
    unread = True

    async def receive() -> Message:
        nonlocal unread
        if unread:
            piece = body.read(PIECE)
            unread = len(piece) == PIECE
            await asyncio.sleep(0)  # let others run between two pieces
            return {"type": "http.request", "body": piece, "more_body": unread}
        while (message := await queue.get())["type"] == "http.request":
            pass
        return message

    return receive
