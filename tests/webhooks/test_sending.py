"""One request to a receiver: its deadline, its errors, and the stored part of the response."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from socket import create_server, socket

import pytest

from apps.webhooks import sending
from apps.webhooks.addresses import address_of
from apps.webhooks.sending import Message, Outcome, Sender
from tests.webhooks.receivers import Receiver
from tests.webhooks.test_addresses import sent

pytestmark = pytest.mark.once
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def on_this_machine(settings):
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.0/8")]


@contextmanager
def speaking(speak: Callable[[socket], None]) -> Iterator[str]:
    """A server that reads a request, and then writes to its connection; the URL."""
    listening = create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    speak(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        listening.shutdown(2)
        listening.close()
        thread.join()


def dripping(prefix: bytes) -> Callable[[socket], None]:
    """Sends this, and then a byte each tenth of a second, for longer than the deadline."""

    def speak(connection: socket) -> None:
        connection.sendall(prefix)
        for _ in range(100):
            threading.Event().wait(0.1)
            connection.sendall(b"x")

    return speak


@pytest.mark.parametrize(
    "prefix",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
    ],
)
def test_a_dripping_receiver_ends_at_the_deadline(monkeypatch, prefix):
    monkeypatch.setattr(sending, "DEADLINE", 0.5)
    with speaking(dripping(prefix)) as url:
        outcome = sent(url)
    assert (outcome.error, outcome.status) == ("timeout", None)
    assert outcome.duration_ms >= 500


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000,
    ],
)
def test_a_receiver_that_breaks_the_protocol_fails(answer):
    with speaking(lambda connection: connection.sendall(answer)) as url:
        assert sent(url).error in {"protocol", "disconnected"}


@pytest.mark.parametrize(
    ("status", "error"),
    [(200, ""), (202, ""), (204, ""), (304, "redirect"), (400, "status"), (500, "status")],
)
def test_only_2xx_is_a_success(status, error):
    with Receiver(lambda _: status) as receiver:
        outcome = sent(receiver.url)
    assert (outcome.status, outcome.error) == (status, error)
    assert outcome.has_succeeded == (error == "")


def test_a_response_is_read_and_stored_in_part():
    body = b"\0\xff" + b"x" * 3_000_000
    headers = {f"X-{number}": "y" * 2000 for number in range(20)}
    with Receiver(lambda _: (200, headers, body)) as receiver:
        outcome = sent(receiver.url)
    assert outcome.has_succeeded
    assert outcome.body.startswith("\N{REPLACEMENT CHARACTER}" * 2 + "x")
    assert len(outcome.body) == 4096
    assert outcome.headers["x-7"] == "y" * 1000


def test_a_port_without_a_server_and_a_name_without_an_address_are_told_apart():
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert sent(f"http://127.0.0.1:{port}/").error == "refused"
    assert sent("http://no-such-name.invalid/").error == "dns"
    assert sent(f"http://{'x' * 64}.example/").error == "dns"


def test_a_certificate_that_nobody_has_signed_is_an_error_of_tls():
    with speaking(lambda connection: connection.sendall(OK)) as url:
        assert sent(url.replace("http:", "https:")).error == "tls"
    assert sending.tls_context().verify_mode == ssl.CERT_REQUIRED
    assert sending.tls_context().check_hostname


def test_the_next_address_of_a_name_is_tried_if_the_first_does_not_answer():
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.2"]

    with Receiver(host="127.0.0.2") as receiver:
        outcome = sent(f"http://two.example:{receiver.port}/", resolve)
    assert outcome.status == 204


def test_a_connection_is_kept_for_the_next_event():
    async def send(url: str) -> list[Outcome]:
        async with Sender() as sender:
            return [await sender.send(Message(address_of(url), {}, b"{}")) for _ in range(3)]

    with Receiver() as receiver:
        outcomes = asyncio.run(send(receiver.url))
        assert [outcome.status for outcome in outcomes] == [204] * 3
        assert receiver.connections == 1
