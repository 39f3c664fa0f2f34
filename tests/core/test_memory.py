"""Memory that requests have used is free when they end, and returns to the system."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory
from rest_framework.response import Response

from apps.core.slugs import PREFIX
from apps.threads.views import ThreadViewSet
from tests.server import Server

pytestmark = pytest.mark.once

ARENAS = """
import ctypes
from threading import Barrier, Thread
libc, path = ctypes.CDLL(None), {path!r}
together = Barrier(13)
def allocate():
    bytes(10_000)
    together.wait(60)
for _ in range(12):
    Thread(target=allocate).start()
together.wait(60)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""
LARGE = """
import ctypes
class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
def mapped():
    return libc.mallinfo2().hblkhd
for _ in range(3):
    before = mapped()
    block = bytes(5_000_000)
    print(mapped() - before)
    del block
"""


def test_all_threads_of_a_process_share_two_arenas(server: Server, tmp_path: Path):
    report = tmp_path / "arenas.xml"
    server.run(ARENAS.format(path=str(report)))
    assert report.read_text().count("<heap nr=") == 2


def test_a_large_block_has_memory_of_its_own_also_after_others_were_freed(server: Server):
    sizes = [int(line) for line in server.run(LARGE).split()]
    assert all(5_000_000 <= size < 5_100_000 for size in sizes), sizes


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def responses() -> list[Response]:
    return [one for one in gc.get_objects() if isinstance(one, Response)]


@pytest.mark.parametrize(("kind", "status"), [("unknown", 422), ("question", 201)])
def test_the_body_of_a_request_is_released_with_its_answer(api, alice, team_repo, kind, status):
    body = {"kind": kind, "title": "Title", "body": "a" * 50_000}
    with without_collection():
        api(alice).post("/teams/acme/repos/api/threads", **body).gives(status)
        views = [one for one in gc.get_objects() if isinstance(one, ThreadViewSet)]
    assert views, "DRF's request refers to its view"
    assert not any("sent" in vars(view) for view in views)


def test_an_answer_is_released_when_it_has_been_sent(api, alice, team_repo):
    headers = api(alice).headers
    handler = WSGIHandler()  # the client of the tests would refer to the answer
    handler.load_middleware()
    for path, status in (("threads/1", 404), ("threads", 200)):
        request = RequestFactory().get(f"{PREFIX}/teams/acme/repos/api/{path}", headers=headers)
        with without_collection():
            before = responses()  # of earlier tests
            response = handler.get_response(request)
            assert response.status_code == status
            del response
            assert responses() == before
