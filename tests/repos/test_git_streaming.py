"""Streaming bodies between a request and git."""

import gc
import gzip
import zlib
from contextlib import ExitStack, closing
from queue import Queue
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Event

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from apps.core.body_limits import body_memory
from apps.core.errors import BadRequest, PayloadTooLarge, Unavailable
from apps.core.slots import ALL
from apps.repos.http import streams
from apps.repos.http.streams import PIECE, answer, collected, inflated, pieces

pytestmark = pytest.mark.once


@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(1, 50))
def test_a_gzip_body_is_inflated_whatever_the_pieces(body, repeat, size):
    packed = gzip.compress(body * repeat)
    parts = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert b"".join(inflated(iter(parts))) == body * repeat


def test_a_small_body_that_inflates_to_much_comes_in_small_pieces():
    packed = gzip.compress(bytes(10_000_000))
    assert len(packed) < 20_000
    assert max(len(piece) for piece in inflated(iter([packed]))) <= PIECE


@pytest.mark.parametrize("raw", [b"no gzip", gzip.compress(b"cut off")[:-9], b"\x1f\x8b"], ids=len)
def test_broken_gzip_is_refused(raw):
    with pytest.raises(BadRequest):
        list(inflated(iter([raw])))


def test_a_body_over_the_limit_is_refused_after_inflating():
    packed = zlib.compress(bytes(1000), wbits=16 + zlib.MAX_WBITS)
    request = RequestFactory().post(
        "/", packed, content_type="x/y", headers={"content-encoding": "gzip"}
    )
    with pytest.raises(PayloadTooLarge):
        collected(pieces(request), 999, ExitStack(), "alice")
    request = RequestFactory().post("/", b"plain", content_type="x/y")
    assert b"".join(pieces(request)) == b"plain"


def test_a_body_is_counted_while_it_comes(monkeypatch):
    """Not only at its end: otherwise all threads together could use any amount of memory."""
    monkeypatch.setattr(body_memory, "most", 3 * PIECE)

    held = []

    def growing():
        while True:
            yield bytes(PIECE)
            held.append(body_memory.held[ALL])

    with ExitStack() as stack:
        with pytest.raises(Unavailable):
            collected(growing(), 10 * PIECE, stack, "alice")
        assert held == [0, PIECE, 2 * PIECE, 3 * PIECE], "the first 64 KiB are not counted"
    assert not body_memory.held


def test_the_memory_of_a_body_is_released_when_it_is_forgotten(monkeypatch):
    monkeypatch.setattr(body_memory, "most", PIECE)
    held = ExitStack()
    assert len(collected(iter([bytes(2 * PIECE)]), 2 * PIECE, held, "alice")) == 2 * PIECE
    assert body_memory.held[ALL] == PIECE
    del held
    gc.collect()
    assert not body_memory.held


def test_a_body_that_comes_too_slowly_is_refused(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST", 0)
    with ExitStack() as held, pytest.raises(BadRequest, match="took longer than 0 s to arrive"):
        collected(iter([b"a", b"b"]), 10, held, "alice")


SOON = 60.0
"""Seconds after which a process that should have ended counts as stray."""


class Gits:
    """Starts a program that writes a word and runs for ever, once the test allows it."""

    def __init__(self) -> None:
        self.asked, self.may = Event(), Event()
        self.started = Queue[Popen[bytes]]()

    def start(self):
        self.asked.set()
        assert self.may.wait(SOON)
        command = ["sh", "-c", "echo pack; cat"]
        process = Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True)
        self.started.put(process)
        return process


@pytest.fixture
def gits():
    return Gits()


def outlives(process):
    """Whether the process still runs though nobody reads its output. It is killed here."""
    try:
        process.wait(SOON)
    except TimeoutExpired:
        process.kill()
        return True
    return False


@pytest.fixture
def given_back():
    """An event that is set when `held` of an answer is closed."""
    return Event()


@pytest.fixture
def response(gits, given_back):
    """An answer with the output of such a program."""
    gits.may.set()
    with ExitStack() as held:
        held.callback(given_back.set)
        return answer(gits.start, "x/y", held=held)


@pytest.mark.django_db
def test_a_client_that_leaves_in_between_leaves_nothing(gits, response, given_back):
    """No process remains, and `held` is closed."""
    assert next(iter(response)) == b"pack\n"
    assert not given_back.is_set()
    response.close()
    assert given_back.is_set()
    assert outlives(gits.started.get()) is False


@pytest.mark.django_db
def test_git_that_says_nothing_for_long_is_ended(gits, response, monkeypatch):
    """For example while it negotiates, or for a client without keep-alive support. Otherwise nobody
    would notice that the client is gone.
    """
    monkeypatch.setattr(streams, "SILENCE", 0.2)
    with closing(response):
        assert list(response) == [b"pack\n"]
    assert outlives(gits.started.get()) is False
