"""Places for git's slow answers: who waits, and who is told at once to come back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from apps.browse.slots import MOST_WAITING, MOST_WAITING_OF_ONE, HeavySlots
from apps.core.errors import Unavailable
from tests.waiting import eventually

pytestmark = pytest.mark.once


@pytest.fixture
def in_thread() -> Callable[[HeavySlots, str], threading.Event]:
    """Begins to ask for a place; the event says that it was had, and given back."""

    def begin(slots: HeavySlots, who: str) -> threading.Event:
        had = threading.Event()

        def run() -> None:
            with slots.place(who):
                had.set()

        threading.Thread(target=run, daemon=True).start()
        return had

    return begin


def test_two_of_one_person_wait_and_a_third_is_refused_at_once(in_thread, monkeypatch):
    monkeypatch.setattr("apps.browse.slots.PATIENCE", 60)
    slots = HeavySlots(1, 2)
    with slots.place("ada"):
        waiting = [in_thread(slots, "bob") for _ in range(MOST_WAITING_OF_ONE)]
        eventually(lambda: slots.waiting["bob"] == MOST_WAITING_OF_ONE)
        with pytest.raises(Unavailable) as refused, slots.place("bob"):
            pass
        assert refused.value.headers["Retry-After"]
        others = [
            in_thread(slots, f"person {n}") for n in range(MOST_WAITING - MOST_WAITING_OF_ONE)
        ]
        eventually(lambda: slots.waiting.total() == MOST_WAITING)
        with pytest.raises(Unavailable), slots.place("carol"):
            pass
    assert all(had.wait(60) for had in waiting + others)
    eventually(lambda: not (slots.held.total() or slots.waiting.total()))


def test_who_waits_too_long_is_refused_and_waits_no_more(monkeypatch):
    monkeypatch.setattr("apps.browse.slots.PATIENCE", 0.01)
    slots = HeavySlots(1, 1)
    with ExitStack() as held:
        held.enter_context(slots.place("ada"))
        for who in ("ada", "bob"):
            with pytest.raises(Unavailable), slots.place(who):
                pass
        assert not slots.waiting.total()
    with slots.place("bob"):
        assert slots.held["bob"] == 1


def test_what_an_answer_can_do_without_waits_for_nobody(monkeypatch):
    monkeypatch.setattr("apps.browse.slots.PATIENCE", 60)
    slots = HeavySlots(1, 1)
    with slots.place("ada"):
        with pytest.raises(Unavailable), slots.place("bob", waits=False):
            pass
        assert not slots.waiting.total()
    with slots.place("bob", waits=False):
        assert slots.held["bob"] == 1
