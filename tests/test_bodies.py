"""Request bodies under ASGI: the start of the view, its reads, and the memory for bodies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse
from django.urls import path

from apps.core.body_limits import FREE, UPLOAD_LIMIT, body_memory, upload_memory
from apps.core.errors import ApiError
from apps.core.middleware import error_answer
from apps.core.parsers import body_stream
from apps.core.slots import ALL
from config import bodies
from config.bodies import BUFFERED, LIMIT
from config.handler import Handler
from tests.waiting import eventually

MIB = 1024 * 1024
UPLOADS = "/api/v1/users/alice/repos/api/uploads"
REFUSING = "/api/v1/teams/acme/repos/api/uploads"
API = "/api/v1/teams"


def input_of(request: HttpRequest) -> Any:
    """The stream of a body without a declared length."""
    return body_stream(request)[0]


def size(request: HttpRequest) -> HttpResponse:
    try:
        return HttpResponse(str(len(input_of(request).read())))
    except ApiError as error:
        return error_answer(error)


def size_by_pieces(request: HttpRequest) -> HttpResponse:
    """The number of bytes, and of those in the largest piece."""
    sizes = [len(piece) for piece in iter(lambda: input_of(request).read(1000), b"")]
    return HttpResponse(f"{sum(sizes)} {max(sizes, default=0)}")


def refuse(request: HttpRequest) -> HttpResponse:
    return HttpResponse("no", status=403)


seen: list[str] = []


def read_and_tell(request: HttpRequest) -> HttpResponse:
    try:
        for _ in range(100):
            input_of(request).read(1000)
    except Exception as error:
        seen.append(str(error))
        raise
    return HttpResponse()


used: list[BaseDatabaseWrapper] = []


def use_the_database(request: HttpRequest) -> HttpResponse:
    """Before it reads the body."""
    connection.ensure_connection()
    used.append(connections["default"])
    input_of(request).read()
    return HttpResponse()


def push_to(name: str) -> str:
    return f"users/alice/{name}.git/git-receive-pack"


urlpatterns = [
    path("size", size),
    path("size/git-receive-pack", size),
    path(UPLOADS[1:], size),
    path(API[1:], size),
    path(f"{API[1:]}/pieces", size_by_pieces),
    path(REFUSING[1:], refuse),
    path(f"{API[1:]}/tell", read_and_tell),
    path(f"{API[1:]}/use", use_the_database),
    path(push_to("size"), size),
    path(push_to("pieces"), size_by_pieces),
    path(push_to("refuse"), refuse),
    path(push_to("tell"), read_and_tell),
]


class Client:
    """The server's side of a request; `messages` come from the client."""

    def __init__(
        self, path: str, messages: Iterator[dict[str, Any]], address: str = "192.0.2.1"
    ) -> None:
        self.path, self.messages, self.address = path, messages, address
        self.headers_sent = [(b"transfer-encoding", b"chunked")]
        self.received = 0
        """Received messages."""
        self.received_before_answer = 0
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        for message in self.messages:
            self.received += 1
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.received_before_answer = message["status"], self.received
            self.headers = dict(message["headers"])
        self.body += message.get("body", b"")

    def run(self, handler: Handler) -> Client:
        scope = {"type": "http", "method": "POST", "path": self.path, "headers": self.headers_sent}
        more = {"query_string": b"", "client": (self.address, 1)}
        asyncio.run(handler({**scope, **more}, self.receive, self.send))
        return self


def body(count: int, piece: bytes = bytes(MIB)) -> Iterator[dict[str, Any]]:
    """A body of this number of pieces."""
    for number in range(count):
        yield {"type": "http.request", "body": piece, "more_body": number < count - 1}


@pytest.fixture
def post(db: None, settings: Any) -> Callable[..., Client]:
    """`post(path, messages, address)`: the outcome of such a request."""
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = []
    return lambda *request: Client(*request).run(Handler())


def test_of_a_body_that_is_no_push_only_a_little_is_kept(post):
    """All of it is received: the client would not read the answer before."""
    assert post("/size", body(3, b"abc")).body == b"9"
    for where in ("/size", "/size/git-receive-pack"):
        client = post(where, body(40))
        assert (client.body, client.received_before_answer) == (b"%d" % (BUFFERED + 1), 40)


def test_of_a_request_with_an_upload_as_much_is_kept_as_it_may_have(post):
    client = post(UPLOADS, body(40))
    assert client.body == b"%d" % (UPLOAD_LIMIT + 1)
    client = post(API, body(40))
    assert client.body == b"%d" % (BUFFERED + 1)
    assert post(API, body(3, b"abc")).body == b"9"
    assert post(f"{API}/pieces", body(5, bytes(FREE - 1))).body == b"%d 1000" % (5 * FREE - 5)


@pytest.mark.parametrize("path", [UPLOADS, API])
def test_of_what_is_taken_from_a_client_after_the_answer_there_is_an_end(post, path):
    """The client would not read the answer before it has sent some more."""
    client = post(path, body(40))
    assert client.received_before_answer == int(client.body) // MIB + 1
    assert client.received == client.received_before_answer + LIMIT // MIB
    assert post(path, body(5)).received == 5


def test_a_large_body_of_the_api_is_refused_before_it_has_come(post, monkeypatch):
    """A refused body is not stored, and counts no memory."""
    monkeypatch.setattr(body_memory, "most", 0)
    monkeypatch.setattr(upload_memory, "most", 0)
    piece = bytes(FREE // 4)
    client = post(REFUSING, body(2000, piece))
    assert (client.status, client.received_before_answer) == (403, 4)
    assert client.received == 4 + LIMIT // len(piece)


def test_bodies_that_views_wait_for_count_memory_for_their_threads(post, monkeypatch):
    monkeypatch.setattr(body_memory, "most", MIB)
    assert post(API, body(2, bytes(FREE))).status == 200
    monkeypatch.setattr(body_memory, "most", MIB - 1)
    assert post(API, body(2, bytes(FREE))).status == 503
    assert post(API, body(1, bytes(FREE))).status == 200
    assert not body_memory.held


def test_uploads_and_other_bodies_take_no_memory_from_each_other(post, monkeypatch):
    monkeypatch.setattr(upload_memory, "most", 0)
    assert post(UPLOADS, body(2)).status == 503
    assert post("/size", body(2)).status == 200
    monkeypatch.undo()
    monkeypatch.setattr(body_memory, "most", 0)
    assert post(UPLOADS, body(2)).status == 200
    assert not upload_memory.held


def test_large_bodies_have_a_cap_together_and_small_ones_are_always_accepted(post, monkeypatch):
    """The memory of one is free for the next."""
    monkeypatch.setattr(body_memory, "most", 2 * MIB)
    assert post("/size", body(2)).status == 200
    full = post("/size", body(3))
    assert (full.status, orjson.loads(full.body)["error"]) == (503, "unavailable")
    assert full.headers[b"Retry-After"]
    assert post("/size", body(2)).status == 200
    monkeypatch.setattr(body_memory, "most", 0)
    assert post("/size", body(1, bytes(FREE))).status == 200
    assert post("/size", body(1, bytes(FREE + 1))).status == 503


def test_one_address_leaves_memory_to_others(post, monkeypatch):
    assert (body_memory.most, body_memory.per_caller) == (256 * MIB, 64 * MIB)
    assert (upload_memory.most, upload_memory.per_caller) == (84 * MIB, 42 * MIB)
    monkeypatch.setattr(body_memory, "per_caller", 2 * MIB)
    with body_memory.hold("address:192.0.2.7") as waiting:
        waiting.grow_to(2 * MIB)
        assert post("/size", body(1), "192.0.2.7").status == 503
        assert post("/size", body(1), "192.0.2.8").status == 200
    assert post("/size", body(1), "192.0.2.7").status == 200
    assert not body_memory.held


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.django_db(transaction=True)
def test_the_api_says_why_it_reads_a_body_no_further(make, alice, monkeypatch, full):
    """Its own error, not that of an incomplete body."""
    if full:
        monkeypatch.setattr(body_memory, "most", 0)
    else:
        monkeypatch.setattr(bodies, "LONGEST", 0.5)
    client = Client("/api/v1/teams", body(2, bytes(FREE)) if full else unending(bytes(FREE)))
    client.headers_sent += [
        (b"host", b"localhost"),
        (b"authorization", f"Bearer {make.token(alice)}".encode()),
        (b"content-type", b"application/json"),
    ]
    told = orjson.loads(client.run(Handler()).body)
    wanted = (503, "unavailable") if full else (400, "malformed_request")
    assert (client.status, told["error"]) == wanted
    assert "breaks off" not in told["detail"]


def test_what_is_read_after_the_end_of_its_request_takes_no_memory():
    """A client may disconnect while the thread of its view reads."""
    with body_memory.hold("address:192.0.2.9") as hold:
        hold.grow_to(MIB)
        assert body_memory.held[ALL] == MIB - FREE
    hold.grow_to(2 * MIB)
    assert not body_memory.held


def unending(piece: bytes = b"abc") -> Iterator[dict[str, Any]]:
    """The beginning of a body, and nothing more."""
    yield {"type": "http.request", "body": piece, "more_body": True}


def test_a_body_that_takes_too_long_to_come_is_refused(post, monkeypatch):
    """A byte from time to time would keep a connection open for good."""
    monkeypatch.setattr(bodies, "LONGEST", 0.05)
    for where, piece in (("/size", b"abc"), (API, b"abc"), (API, bytes(FREE))):
        late = post(where, unending(piece))
        assert (late.status, orjson.loads(late.body)["error"]) == (400, "malformed_request")
        assert b"longer than 0.05 s" in late.body


def test_a_request_that_no_view_gets_has_an_id_and_a_line(post, monkeypatch, caplog):
    monkeypatch.setattr(bodies, "LONGEST", 0.05)
    caplog.set_level(logging.INFO, "apps.core.request_log")
    late = post(API, unending())
    [record] = [one for one in caplog.records if one.name == "apps.core.request_log"]
    assert late.headers[b"X-Request-Id"] and vars(record)["args"]["status"] == late.status == 400


def test_what_is_taken_of_a_refused_push_is_not_waited_for_long(post, monkeypatch):
    monkeypatch.setattr(bodies, "LONGEST", 0.05)
    assert post("/" + push_to("refuse"), unending()).status == 403


def test_a_view_reads_a_push_to_its_end_in_pieces_of_its_own(post):
    assert post("/" + push_to("pieces"), body(40, bytes(2500))).body == b"100000 1000"
    assert post("/" + push_to("pieces"), body(1, b"")).body == b"0 0"
    assert post("/" + push_to("size"), body(3, b"abc")).body == b"9"


def test_whoever_reads_a_push_without_a_size_gets_a_bounded_one(post):
    assert post("/" + push_to("size"), body(40)).body == b"%d" % (LIMIT + 1)


def test_a_push_is_refused_before_any_of_it_is_read_and_then_a_little_is_taken(post):
    client = post("/" + push_to("refuse"), body(300))
    assert (client.status, client.received_before_answer) == (403, 0)
    assert client.received == LIMIT // MIB
    assert post("/" + push_to("refuse"), body(3)).received == 3


def leaving(piece: bytes) -> Iterator[dict[str, Any]]:
    yield {"type": "http.request", "body": piece, "more_body": True}
    while True:
        yield {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("path", "piece"), [("/" + push_to("tell"), b"abc"), (f"{API}/tell", bytes(FREE))]
)
def test_a_client_that_leaves_in_the_middle_ends_the_reading(post, path, piece):
    seen.clear()
    post(path, leaving(piece))
    assert eventually(lambda: seen) == ["The request ended before its body did."]


def test_a_request_of_the_api_whose_small_body_breaks_off_reaches_no_view(post):
    seen.clear()
    assert post(f"{API}/tell", leaving(b"abc")).status == 0
    assert seen == []


def test_a_view_that_waits_for_its_body_holds_no_connection(post: Callable[..., Client]) -> None:
    kept: list[bool] = []

    def messages() -> Iterator[dict[str, Any]]:
        yield {"type": "http.request", "body": bytes(FREE), "more_body": True}
        kept.append(used[-1].connection is not None)
        yield {"type": "http.request", "body": b"", "more_body": False}

    assert post(f"{API}/use", messages()).status == 200
    assert kept == [connection.vendor == "sqlite"]
