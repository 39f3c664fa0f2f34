"""What a view gets of a request's body under ASGI, when, and how much of it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import path

from apps.core.room import FREE, UPLOAD_LIMIT, room, upload_room
from config import bodies
from config.bodies import KEPT, LIMIT
from config.handler import Handler
from tests.waiting import eventually

MIB = 1024 * 1024
UPLOADS = "/api/v1/users/alice/repos/api/uploads"


def size(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(len(request.read())))


def size_by_pieces(request: HttpRequest) -> HttpResponse:
    """How many bytes there were, and in the largest piece."""
    sizes = [len(piece) for piece in iter(lambda: request.read(1000), b"")]
    return HttpResponse(f"{sum(sizes)} {max(sizes, default=0)}")


def refuse(request: HttpRequest) -> HttpResponse:
    return HttpResponse("no", status=403)


seen: list[str] = []


def read_and_tell(request: HttpRequest) -> HttpResponse:
    try:
        request.read(1000)
        request.read(1000)
    except Exception as error:
        seen.append(str(error))
        raise
    return HttpResponse()


def push_to(name: str) -> str:
    return f"users/alice/{name}.git/git-receive-pack"


urlpatterns = [
    path("size", size),
    path("size/git-receive-pack", size),
    path(UPLOADS[1:], size),
    path(push_to("size"), size),
    path(push_to("pieces"), size_by_pieces),
    path(push_to("refuse"), refuse),
    path(push_to("tell"), read_and_tell),
]


class Client:
    """A server's side of one request: `messages` are what comes from the client."""

    def __init__(
        self, path: str, messages: Iterator[dict[str, Any]], address: str = "192.0.2.1"
    ) -> None:
        self.path, self.messages, self.address = path, messages, address
        self.received = 0
        """Messages that have been taken."""
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
        scope = {"type": "http", "method": "POST", "path": self.path, "headers": []}
        more = {"query_string": b"", "client": (self.address, 1)}
        asyncio.run(handler({**scope, **more}, self.receive, self.send))
        return self


def body(count: int, piece: bytes = bytes(MIB)) -> Iterator[dict[str, Any]]:
    """A body of so many pieces."""
    for number in range(count):
        yield {"type": "http.request", "body": piece, "more_body": number < count - 1}


@pytest.fixture
def post(db: None, settings: Any) -> Callable[..., Client]:
    """`post(path, messages, address)`: what became of such a request."""
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = []
    return lambda *request: Client(*request).run(Handler())


def test_of_a_body_that_is_no_push_only_a_little_is_kept(post):
    """All of it is taken from the client, which would not read the answer before."""
    assert post("/size", body(3, b"abc")).body == b"9"
    for where in ("/size", "/size/git-receive-pack"):
        client = post(where, body(40))
        assert (client.body, client.received_before_answer) == (b"%d" % (KEPT + 1), 40)


def test_of_a_request_with_an_upload_as_much_is_kept_as_it_may_have(post):
    client = post(UPLOADS, body(40))
    assert (client.body, client.received) == (b"%d" % (UPLOAD_LIMIT + 1), 40)


def test_uploads_and_other_bodies_take_no_room_from_each_other(post, monkeypatch):
    monkeypatch.setattr(upload_room, "left", 0)
    assert post(UPLOADS, body(2)).status == 503
    assert post("/size", body(2)).status == 200
    monkeypatch.undo()
    monkeypatch.setattr(room, "left", 0)
    assert post(UPLOADS, body(2)).status == 200
    assert upload_room.left == 84 * MIB


def test_large_bodies_have_a_cap_together_and_small_ones_always_find_room(post, monkeypatch):
    """What one of them has taken is there for the next."""
    monkeypatch.setattr(room, "left", 2 * MIB)
    assert post("/size", body(2)).status == 200
    full = post("/size", body(3))
    assert (full.status, orjson.loads(full.body)["error"]) == (503, "unavailable")
    assert full.headers[b"Retry-After"]
    assert post("/size", body(2)).status == 200
    monkeypatch.setattr(room, "left", 0)
    assert post("/size", body(1, bytes(FREE))).status == 200
    assert post("/size", body(1, bytes(FREE + 1))).status == 503


def test_one_address_leaves_room_to_others(post, monkeypatch):
    assert (room.most_for_one, upload_room.most_for_one) == (64 * MIB, 42 * MIB)
    monkeypatch.setattr(room, "most_for_one", 2 * MIB)
    with room.share("address:192.0.2.7") as waiting:
        waiting.grow_to(2 * MIB)
        assert post("/size", body(1), "192.0.2.7").status == 503
        assert post("/size", body(1), "192.0.2.8").status == 200
    assert post("/size", body(1), "192.0.2.7").status == 200
    assert (room.left, room.taken_by) == (256 * MIB, {})


def unending() -> Iterator[dict[str, Any]]:
    """The beginning of a body; nothing follows."""
    yield {"type": "http.request", "body": b"abc", "more_body": True}


def test_a_body_that_takes_too_long_to_come_is_refused(post, monkeypatch):
    """A byte now and then would keep a connection for ever."""
    monkeypatch.setattr(bodies, "LONGEST", 0.05)
    late = post("/size", unending())
    assert (late.status, orjson.loads(late.body)["error"]) == (400, "malformed_request")
    assert b"longer than 0.05 s" in late.body


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


def test_a_client_that_leaves_in_the_middle_ends_the_reading(post):
    def leaving() -> Iterator[dict[str, Any]]:
        yield {"type": "http.request", "body": b"abc", "more_body": True}
        while True:
            yield {"type": "http.disconnect"}

    seen.clear()
    post("/" + push_to("tell"), leaving())
    assert eventually(lambda: seen) == ["The request ended before its body did."]
