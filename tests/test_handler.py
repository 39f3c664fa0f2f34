"""Threads of requests under ASGI, and requests and responses between them and the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path, re_path

from config.handler import SILENCE, Handler
from config.request_threads import AT_WORK, RequestThreads
from tests.server import PATIENCE
from tests.waiting import eventually, eventually_in_loop

seen: list[tuple[int, Any]] = []
"""The thread and the connection of a call."""


def ident(_: HttpRequest) -> HttpResponse:
    connection.ensure_connection()
    seen.append((threading.get_ident(), connection.connection))
    return HttpResponse(str(threading.get_ident()))


def environment(request: HttpRequest) -> HttpResponse:
    lines = [f"{name}={value}" for name, value in sorted(request.META.items())]
    return HttpResponse("\n".join([request.path_info, *lines]))


class Source:
    """A streamed response's pieces: a number without end."""

    closed = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b"x" * 1000

    def close(self) -> None:
        Source.closed += 1


def pieces(_: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(Source())


def failing(_: HttpRequest) -> StreamingHttpResponse:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise RuntimeError("in the middle")

    return StreamingHttpResponse(broken())


urlpatterns = [
    path("ident", ident),
    path("pieces", pieces),
    path("failing", failing),
    re_path("", environment),
]


class Client:
    """The server's side of a request without a body."""

    def __init__(self, **scope: Any) -> None:
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": "/ident",
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            **scope,
        }
        self.left = asyncio.Event()
        self.messages: list[dict[str, Any]] = []
        self.body = b""
        self.is_received = False

    async def receive(self) -> dict[str, Any]:
        if not self.is_received:
            self.is_received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self.body += message.get("body", b"")

    async def run(self, handler: Handler) -> str:
        await handler(self.scope, self.receive, self.send)
        return self.body.decode()


@pytest.fixture
def handler(settings: Any) -> Handler:
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = []
    seen.clear()
    Source.closed = 0
    return Handler()


@pytest.mark.django_db(transaction=True)
def test_requests_have_few_threads_which_keep_their_connections(handler):
    async def story() -> None:
        for _ in range(30):
            await Client().run(handler)

    asyncio.run(story())
    threads = {thread for thread, _ in seen}
    assert len(threads) <= AT_WORK
    if connection.vendor == "sqlite":
        assert len({id(each) for _, each in seen}) == len(threads)


def answer_of(handler: Handler, **scope: Any) -> list[str]:
    return asyncio.run(Client(**scope).run(handler)).splitlines()


def test_the_environment_is_that_of_wsgi(handler):
    lines = answer_of(
        handler,
        method="PUT",
        path="/ä/b c",
        raw_path=b"/%C3%A4/b%20c",
        query_string=b"a=%20b",
        client=("192.0.2.1", 5),
        server=("192.0.2.9", 80),
        scheme="https",
        headers=[
            (b"host", b"code.example.org"),
            (b"cookie", b"a=1"),
            (b"cookie", b"b=2"),
            (b"accept", b"text/html"),
            (b"accept", b"text/plain"),
            (b"x_forwarded_for", b"203.0.113.1"),
            (b"content-type", b"application/json"),
        ],
    )
    assert lines[0] == "/ä/b c"
    assert {
        "REQUEST_METHOD=PUT",
        "QUERY_STRING=a=%20b",
        "RAW_URI=/%C3%A4/b%20c",
        "REMOTE_ADDR=192.0.2.1",
        "SERVER_NAME=192.0.2.9",
        "SERVER_PORT=80",
        "wsgi.url_scheme=https",
        "HTTP_HOST=code.example.org",
        "HTTP_COOKIE=a=1; b=2",
        "HTTP_ACCEPT=text/html,text/plain",
        "CONTENT_TYPE=application/json",
    } <= set(lines)
    assert not any("203.0.113.1" in line for line in lines)


def test_a_streamed_response_ends_soon_after_its_client_has_left(handler):
    async def story() -> None:
        client = Client(path="/pieces")
        task = asyncio.create_task(client.run(handler))
        await eventually_in_loop(lambda: len(client.messages) > 5)
        client.left.set()
        await task

    asyncio.run(story())
    assert eventually(lambda: Source.closed) == 1


def test_a_client_that_leaves_while_it_is_sent_to_ends_the_response_at_once(handler):
    """Also before the thread waits for the sending, which ends in the event loop."""
    ended_in: list[int] = []

    async def leave() -> None:
        client, is_sending = Client(path="/pieces"), asyncio.Event()

        async def send_for_ever(message: dict[str, Any]) -> None:
            is_sending.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended_in.append(threading.get_ident())

        client.send = send_for_ever  # type: ignore[method-assign]
        before, task = Source.closed, asyncio.create_task(client.run(handler))
        await is_sending.wait()
        client.left.set()
        await eventually_in_loop(lambda: Source.closed > before, within=SILENCE / 2)
        await task

    async def story() -> None:
        for _ in range(10):
            await leave()

    asyncio.run(story())
    assert {*ended_in} == {threading.get_ident()} and len(ended_in) == 10


def test_a_request_that_the_server_cancels_ends_its_response(handler):
    async def story() -> None:
        client = Client(path="/pieces")
        task = asyncio.create_task(client.run(handler))
        await eventually_in_loop(lambda: len(client.messages) > 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await eventually_in_loop(lambda: Source.closed == 1)

    asyncio.run(story())


def test_a_failure_after_the_head_is_the_servers_to_handle(handler):
    client = Client(path="/failing")
    with pytest.raises(RuntimeError, match="in the middle"):
        asyncio.run(client.run(handler))
    assert client.body == b"a"
    assert client.messages[-1]["more_body"]


def in_loop(story: Callable[[RequestThreads], Any]) -> None:
    async def run() -> None:
        await story(RequestThreads(at_work=2))

    asyncio.run(run())


def test_requests_wait_in_order():
    async def story(threads: RequestThreads) -> None:
        threads.at_work = 1
        order: list[int] = []
        await asyncio.gather(*(threads.run(order.append, number) for number in range(200)))
        assert order == sorted(order)

    in_loop(story)


def test_requests_that_wait_for_long_delay_no_others():
    async def story(threads: RequestThreads) -> None:
        end = threading.Event()
        waiting = [asyncio.create_task(threads.run(end.wait, PATIENCE)) for _ in range(5)]
        assert await asyncio.wait_for(threads.run(lambda: "done"), PATIENCE) == "done"
        assert not any(task.done() for task in waiting)
        end.set()
        assert await asyncio.gather(*waiting) == [True] * 5
        await eventually_in_loop(lambda: len(threads.begun) == 2)

    in_loop(story)


def test_a_request_of_git_gets_a_thread_at_once():
    async def story(threads: RequestThreads) -> None:
        end = threading.Event()
        for _ in range(5):
            threads.submit(partial(end.wait, PATIENCE), at_once=True)
        assert len(threads.begun) == 5
        end.set()

    in_loop(story)


def test_a_call_that_ends_after_its_event_loop_leaves_its_thread_at_work():
    begun, end, threads = threading.Event(), threading.Event(), RequestThreads(at_work=1)

    def wait() -> None:
        begun.set()
        end.wait(PATIENCE)

    async def leave() -> None:
        task = asyncio.create_task(threads.run(wait))
        await eventually_in_loop(begun.is_set)
        task.cancel()

    asyncio.run(leave())
    end.set()
    assert asyncio.run(threads.run(lambda: "done")) == "done"
    assert len(threads.begun) == 1


class Late(threading.Thread):
    """A thread whose first start fails."""

    refused = False

    def start(self) -> None:
        if not Late.refused:
            Late.refused = True
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_thread_that_could_not_start_starts_for_the_same_request(monkeypatch):
    monkeypatch.setattr("config.request_threads.Thread", Late)

    async def story(threads: RequestThreads) -> None:
        assert await asyncio.wait_for(threads.run(lambda: "done"), PATIENCE) == "done"

    in_loop(story)
