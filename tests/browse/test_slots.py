"""Slots for slow answers of git: callers that wait, and callers that get 503 at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.browse.middleware import MOST_REFUSED, caller_of, delay, recent_busy
from apps.browse.read_slots import (
    MOST_WAITING,
    MOST_WAITING_OF_CALLER,
    RETRY_AFTER,
    heavy_slots,
    light_slots,
    slow_slots,
)
from apps.core.errors import Unavailable
from apps.core.requests import UNDER_ASGI
from apps.core.slots import ALL, Slots
from tests.waiting import eventually

pytestmark = pytest.mark.once


@pytest.fixture
def in_thread() -> Callable[[Slots, str], threading.Event]:
    """`begin(slots, "ada")` asks for a slot in a thread. The event is set once it was held and
    released.
    """

    def begin(slots: Slots, caller: str) -> threading.Event:
        had = threading.Event()

        def run() -> None:
            with slots.slot(caller):
                had.set()

        threading.Thread(target=run, daemon=True).start()
        return had

    return begin


def test_two_of_one_person_wait_and_a_third_is_refused_at_once(in_thread, monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 60)
    slots = slow_slots(1, 2)
    with slots.slot("ada"):
        waiting = [in_thread(slots, "bob") for _ in range(MOST_WAITING_OF_CALLER)]
        eventually(lambda: slots.waiting["bob"] == MOST_WAITING_OF_CALLER)
        with pytest.raises(Unavailable) as refused, slots.slot("bob"):
            pass
        assert refused.value.headers["Retry-After"]
        others = [
            in_thread(slots, f"person {n}") for n in range(MOST_WAITING - MOST_WAITING_OF_CALLER)
        ]
        eventually(lambda: slots.waiting.total() == MOST_WAITING)
        with pytest.raises(Unavailable), slots.slot("carol"):
            pass
    assert all(had.wait(60) for had in waiting + others)
    eventually(lambda: not (slots.held[ALL] or slots.waiting.total()))


def test_any_number_of_quick_answers_wait(in_thread, monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 60)
    monkeypatch.setattr(light_slots, "most", 1)
    with light_slots.slot():
        waiting = [in_thread(light_slots, "") for _ in range(40)]
        eventually(lambda: light_slots.waiting.total() == 40)
    assert all(had.wait(60) for had in waiting)
    eventually(lambda: not light_slots.held)


def test_who_waits_too_long_is_refused_and_waits_no_more(monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0.01)
    slots = slow_slots(1, 1)
    with ExitStack() as held:
        held.enter_context(slots.slot("ada"))
        for caller in ("ada", "bob"):
            with pytest.raises(Unavailable), slots.slot(caller):
                pass
        assert not slots.waiting.total()
    with slots.slot("bob"):
        assert slots.held["bob"] == 1


def test_what_an_answer_can_do_without_waits_for_nobody(monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 60)
    slots = slow_slots(1, 1)
    with slots.slot("ada"):
        with pytest.raises(Unavailable), slots.slot("bob", waits=False):
            pass
        assert not slots.waiting.total()
    with slots.slot("bob", waits=False):
        assert slots.held["bob"] == 1


def test_nobody_holds_the_last_slot(monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0)
    slots = slow_slots(3, 8)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(slots.slot("ada"))
        with pytest.raises(Unavailable), slots.slot("ada"):
            pass
        with slots.slot("bob"):
            assert slots.held[ALL] == slots.most


def test_on_any_machine_one_caller_leaves_a_slot_for_heavy_work_to_others(monkeypatch):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0)
    assert heavy_slots.most >= 2
    with ExitStack() as held:
        with pytest.raises(Unavailable):
            for _ in range(heavy_slots.most):
                held.enter_context(heavy_slots.slot("ada"))
        with heavy_slots.slot("bob"):
            assert heavy_slots.held["bob"] == 1


@pytest.fixture
def queue(monkeypatch) -> Iterator[Callable[[Slots, str], Turn]]:
    """Adds callers at the end of the queue. A turn holds its slot until it is ended."""
    monkeypatch.setattr("apps.core.slots.PATIENCE", 60)
    turns = list[Turn]()

    def begin(slots: Slots, caller: str) -> Turn:
        before, turn = slots.waiting.total(), Turn(slots, caller)
        turns.append(turn)
        eventually(lambda: slots.waiting.total() == before + 1)
        return turn

    yield begin
    for turn in turns:
        turn.end()
    for turn in turns:
        turn.thread.join(60)


class Turn:
    """A caller that waits for a slot, and holds it until `end` is called."""

    def __init__(self, slots: Slots, caller: str) -> None:
        self.slots, self.key = slots, caller
        self.begun, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        with self.slots.slot(self.key):
            self.begun.set()
            self.ended.wait(60)

    def end(self) -> None:
        self.ended.set()


def test_a_released_slot_goes_to_who_has_waited_and_not_to_who_comes_just_then(queue):
    slots = slow_slots(2, 2)
    with slots.slot("carol"), ExitStack() as held:
        held.enter_context(slots.slot("ada"))
        waiting = queue(slots, "bob")
        held.close()
        with pytest.raises(Unavailable), slots.slot("ada", waits=False):
            pass
        assert waiting.begun.wait(60)


def test_of_those_who_wait_who_holds_fewest_slots_comes_first(queue):
    slots = slow_slots(3, 2)
    with slots.slot("ada"), slots.slot("carol"), ExitStack() as held:
        held.enter_context(slots.slot("dave"))
        again, first = queue(slots, "ada"), queue(slots, "bob")
        held.close()
        assert first.begun.wait(60)
        assert not again.begun.is_set() and slots.waiting["ada"] == 1
        first.end()
        assert again.begun.wait(60)


def test_callers_take_turns_and_those_of_one_caller_come_in_their_order(queue):
    slots = slow_slots(2, 2)
    with slots.slot("carol"), ExitStack() as held:
        held.enter_context(slots.slot("dave"))
        order = [queue(slots, caller) for caller in ("ada", "ada", "bob", "bob")]
        held.close()
        for number in (0, 2, 1, 3):
            assert order[number].begun.wait(60), number
            assert slots.held[ALL] == slots.most
            order[number].end()
            order[number].thread.join(60)
        assert not slots.waiting.total()


def test_who_may_have_no_slot_now_keeps_none_from_those_behind(queue):
    slots = slow_slots(3, 1)
    with slots.slot("ada"), slots.slot("carol"), ExitStack() as held:
        held.enter_context(slots.slot("dave"))
        again, other = queue(slots, "ada"), queue(slots, "bob")
        held.close()
        assert other.begun.wait(60)
        assert slots.waiting["ada"] == 1 and not again.begun.is_set()


@pytest.mark.django_db
def test_who_does_not_wait_as_they_are_told_is_refused_without_a_query(
    api, team_repo, alice, bob, monkeypatch, django_assert_num_queries
):
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0.001)
    monkeypatch.setattr(recent_busy, "by_caller", OrderedDict())
    ends = [f"{team_repo.api_path}/compare/{'1' * 40}...{n:040}" for n in range(2 * MOST_REFUSED)]
    with ExitStack() as held:
        for number in range(heavy_slots.most):
            held.enter_context(heavy_slots.slot(f"somebody {number}"))
        for end in ends[:MOST_REFUSED]:
            api(alice).get(end).fails(503, "unavailable")
        for end in (ends[0], f"{team_repo.api_path}/blame/a", f"{team_repo.api_path}/archive"):
            with django_assert_num_queries(0):
                refused = api(alice).get(end)
            refused.fails(503, "unavailable")
            assert 1 <= int(refused.header("Retry-After")) <= RETRY_AFTER
        api(alice).get(f"{team_repo.api_path}/commits").gives()
        api(bob).get(ends[0]).fails(503, "unavailable")
        with CaptureQueriesContext(connection) as queries:
            api(bob).get(ends[0]).fails(503, "unavailable")
        assert len(queries), "it is only his second 503"
    api(bob).get(ends[0]).fails(404, "not_found")
    with django_assert_num_queries(0):
        api(alice).get(ends[0]).fails(503, "unavailable")
    for busy in recent_busy.by_caller.values():
        busy.until = 0
    api(alice).get(ends[0]).fails(404, "not_found")


def test_a_caller_is_a_token_or_a_session_or_an_address(rf, settings):
    """Other cookies do not identify a caller."""

    def caller(address, cookie, **headers):
        request = rf.get("/", REMOTE_ADDR=address, headers={"Cookie": cookie, **headers})
        return caller_of(request)

    here, there = "192.0.2.1", "192.0.2.2"
    session = f"{settings.SESSION_COOKIE_NAME}=abc"
    assert caller(here, "theme=dark") != caller(there, "theme=dark")
    assert caller(here, "theme=dark") == caller(here, "")
    assert caller(here, session) == caller(there, f"theme=dark; {session}")
    assert caller(here, "", authorization="a") == caller(there, session, authorization="a")


def test_only_under_asgi_a_refusal_is_delayed(rf):
    began = monotonic()
    delay(rf.get("/", **{UNDER_ASGI: True}), 0.05)
    assert monotonic() - began >= 0.05
    delay(rf.get("/"), 10**9)
