"""Threads of requests under ASGI, and when the next request may use them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.deprecation import MiddlewareMixin

from apps.core.threads import DaemonExecutor
from config.handler import IDLE_MAX, Handler, Threads
from tests.server import PATIENCE
from tests.test_bodies import Client, body

seen: list[tuple[int, Any]] = []
"""The thread and the connection of a call."""


def note() -> int:
    connection.ensure_connection()
    seen.append((threading.get_ident(), connection.connection))
    return threading.get_ident()


class Noting(MiddlewareMixin):
    """Could run in the event loop, like Django's own middleware."""

    def process_request(self, _: HttpRequest) -> None:
        note()


def ident(_: HttpRequest) -> HttpResponse:
    return HttpResponse(str(note()))


urlpatterns = [path("ident", ident)]


def ask(handler: Handler) -> int:
    """The thread that answered a request."""
    return int(Client("/ident", body(1, b"")).run(handler).body)


def settle(thread: DaemonExecutor) -> None:
    """Wait until the thread has finished its tasks."""
    thread.submit(bool).result(PATIENCE)


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads()
    yield made
    for thread in made.idle:
        thread.submit(connections.close_all).result(PATIENCE)
        thread.shutdown()


@pytest.fixture
def handler(threads: Threads, settings: Any) -> Handler:
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["*"]
    settings.MIDDLEWARE = [f"{__name__}.Noting"]
    seen.clear()
    made = Handler()
    made.threads = threads
    return made


@pytest.mark.django_db(transaction=True)
def test_a_request_has_one_thread_and_the_next_one_has_it_with_its_connection(handler):
    with handler.threads.lend() as thread:
        mine = thread.submit(threading.get_ident).result(PATIENCE)
    for _ in range(3):
        settle(thread)
        assert ask(handler) == mine
    settle(thread)
    assert [thread for thread, _ in seen] == [mine] * 6
    opened = {id(each) for _, each in seen}
    assert len(opened) == (1 if connection.vendor == "sqlite" else 3)


def test_a_thread_that_is_still_at_work_is_lent_to_nobody(threads):
    end = threading.Event()
    with threads.lend() as busy:
        busy.submit(end.wait, PATIENCE)
    with threads.lend() as other:
        assert other is not busy
        other.submit(bool)
    settle(other)
    assert threads.idle == [other]
    end.set()
    settle(busy)
    assert threads.idle == [other, busy]


def test_a_request_whose_body_never_comes_needs_no_thread(threads):
    before = threading.active_count()
    with threads.lend():
        assert threading.active_count() == before
    assert (threads.idle, threading.active_count()) == ([], before)


class Late(threading.Thread):
    """A thread whose first start fails."""

    refused = False

    def start(self) -> None:
        if not self.refused:
            self.refused = True
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_thread_that_could_not_start_starts_for_the_next_work(monkeypatch):
    monkeypatch.setattr("apps.core.threads.Thread", Late)
    executor = DaemonExecutor("late")
    with pytest.raises(RuntimeError):
        executor.submit(bool)
    assert executor.submit(bool).result(PATIENCE) is False
    executor.shutdown()


def test_of_many_threads_some_are_kept(threads):
    many = [threads.lend() for _ in range(IDLE_MAX + 2)]
    lent = [one.__enter__() for one in many]
    for one, thread in zip(many, lent, strict=True):
        last = thread.submit(threading.current_thread).result(PATIENCE)
        one.__exit__(None, None, None)
        if thread in lent[IDLE_MAX:]:
            last.join(PATIENCE)
            assert not last.is_alive()
        else:
            settle(thread)
    assert threads.idle == lent[:IDLE_MAX]


@pytest.mark.django_db(transaction=True)
def test_a_request_that_was_cut_off_gives_its_connection_back(threads):
    """The signal `request_finished` was not sent."""
    with threads.lend() as thread:
        thread.submit(lambda: connection.ensure_connection()).result(PATIENCE)
    settle(thread)
    kept = thread.submit(lambda: connection.connection is not None).result(PATIENCE)
    assert kept == (connection.vendor == "sqlite")
