"""Sliding-window counters: their limits, and the same results in memory and Redis."""

import os
import signal
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.site.counters import Count, Limit, MemoryCounters, ProcessCounters
from tests.races import together

pytestmark = pytest.mark.once

SECOND = 1000
steps = st.lists(st.integers(0, 3 * SECOND), max_size=60)
"""Milliseconds between requests, for windows of about a second."""
both_ways = st.lists(st.integers(-3 * SECOND, 3 * SECOND), max_size=60)
"""The same with a clock that is set back."""
limits = st.builds(
    Limit, st.just("api"), st.integers(1, 8), st.sampled_from([SECOND, 700, 3 * SECOND])
)
relaxed = settings(
    max_examples=settings().max_examples * 3 // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""More examples than usual, because these are fast."""


LIMIT = Limit("api", 5, SECOND)


class Clock:
    def __init__(self, now=1_000_000 * SECOND):
        self.now = now

    def __call__(self):
        return self.now


def admitted_times(limit, waits, counters=None, clock=None):
    """The times of admitted requests, sent after these pauses."""
    clock = clock or Clock()
    counters = counters or MemoryCounters(clock)
    times = []
    for pause in waits:
        clock.now += pause
        if counters.hit([("key", limit)]).admitted:
            times.append(clock.now)
    return times


@relaxed
@given(limits, steps)
def test_no_aligned_window_lets_in_more_than_the_limit(limit, waits):
    times = admitted_times(limit, waits)
    windows = [time // limit.window for time in times]
    assert all(windows.count(index) <= limit.most for index in windows)


@relaxed
@given(limits, steps)
def test_no_sliding_window_lets_in_more_than_the_estimate_allows(limit, waits):
    """At each time: requests of this window, and older ones as far as they count."""
    times = admitted_times(limit, waits)
    for number, now in enumerate(times):
        index, elapsed = divmod(now, limit.window)
        earlier = [time // limit.window for time in times[: number + 1]]
        older = earlier.count(index - 1) * (limit.window - elapsed)
        assert older + earlier.count(index) * limit.window <= limit.most * limit.window
        within = [time for time in times[: number + 1] if now - time < limit.window]
        assert len(within) < 2 * limit.most or limit.most == 1


@relaxed
@given(limits, steps)
def test_who_waits_as_told_is_let_in_and_not_a_millisecond_sooner(limit, waits):
    clock = Clock()
    counters = MemoryCounters(clock)
    admitted_times(limit, waits, counters, clock)
    while (hit := counters.hit([("key", limit)])).admitted:
        pass
    wait = hit.counts[0].wait(limit)
    assert 0 < wait <= 2 * limit.window
    clock.now += wait - 1
    assert not counters.hit([("key", limit)]).admitted
    clock.now += 1
    assert counters.hit([("key", limit)]).admitted


@relaxed
@given(limits, steps)
def test_what_is_said_to_be_left_is_what_is_let_in(limit, waits):
    clock = Clock()
    counters = MemoryCounters(clock)
    for pause in waits:
        clock.now += pause
        left = counters.hit([("key", limit)]).counts[0].left(limit)
    if waits:
        admitted = [counters.hit([("key", limit)]).admitted for _ in range(left + 1)]
        assert admitted == [*[True] * left, False]


@relaxed
@given(st.lists(limits, min_size=1, max_size=4), both_ways)
def test_memory_and_redis_count_alike(redis, several, waits):
    clock, mine = Clock(), uuid4().hex
    memory, redis.clock = MemoryCounters(clock), clock
    asked = [(f"{mine}:{number}", limit) for number, limit in enumerate(several)]
    for number, pause in enumerate(waits):
        clock.now += pause
        some = asked[: 1 + number % len(asked)]
        assert redis.hit(some) == memory.hit(some)


def test_a_refusal_counts_nowhere():
    counters = MemoryCounters(Clock())
    one, many = Limit("write", 1, SECOND), Limit("api", 5, SECOND)
    both = [("one", one), ("many", many)]
    assert [counters.hit(both).admitted for _ in range(3)] == [True, False, False]
    assert counters.hit([("many", many)]).counts == [Count(0, 2, 0)]


def test_a_clock_that_is_set_back_gives_nothing_away():
    clock = Clock()
    counters, limit = MemoryCounters(clock), Limit("api", 2, SECOND)
    assert len(admitted_times(limit, [0, 0, 0], counters, clock)) == 2
    clock.now -= SECOND
    assert not counters.hit([("key", limit)]).admitted


def test_a_clock_that_is_set_back_by_an_hour_refuses_nobody_for_an_hour():
    clock = Clock()
    counters, limit = MemoryCounters(clock), Limit("api", 2, SECOND)
    for step in (-3600 * SECOND, 2 * SECOND, 0):
        assert len(admitted_times(limit, [0, 0, 0], counters, clock)) == 2
        clock.now += step


def test_memory_is_bounded_and_forgets_the_longest_unused():
    counters, limit = MemoryCounters(Clock(), keys_max=100), Limit("api", 1, SECOND)
    for number in range(1000):
        counters.hit([(str(number), limit)])
        counters.hit([("mine", limit)])
    assert len(counters.states) == 100
    assert not counters.hit([("mine", limit)]).admitted


def test_threads_share_one_count(restless):
    counters, limit = MemoryCounters(Clock()), Limit("api", 500, SECOND)

    def admitted():
        return sum(counters.hit([("key", limit)]).admitted for _ in range(200))

    assert sum(together(*[admitted] * 8)) == 500


def test_what_redis_keeps_goes_by_itself(redis):
    hit = redis.hit([("key", Limit("api", 5, SECOND))])
    assert hit.admitted and hit.now > 1_700_000_000_000
    client = redis.script.registered_client
    assert 0 < client.pttl(f"{redis.prefix}:limit:key") <= 2 * SECOND


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_burst_at_the_edge_of_two_windows_is_not_doubled(most):
    clock = Clock(10 * SECOND - 1)
    limit = Limit("api", most, SECOND)
    counters = MemoryCounters(clock)
    burst = [0] * (2 * most)
    assert len(admitted_times(limit, burst, counters, clock)) == most
    clock.now += 1
    assert admitted_times(limit, burst, counters, clock) == []


@relaxed
@given(limits, steps)
def test_processes_count_as_one_does(limit, waits):
    clock = Clock()
    counters = ProcessCounters(clock, keys_max=8)
    assert admitted_times(limit, waits, counters, clock) == admitted_times(limit, waits)


def test_a_bucket_forgets_the_key_with_the_oldest_request():
    clock = Clock()
    counters = ProcessCounters(clock, keys_max=8)
    for number in range(9):
        clock.now += 1
        counters.hit([(f"key {number}", LIMIT)])
    assert {key for key, _ in counters.all_states()[1]} == {f"key {n}" for n in range(1, 9)}


def test_after_the_clock_was_set_back_new_keys_take_the_places_of_those_from_before():
    clock = Clock()
    counters, limit = ProcessCounters(clock, keys_max=8), Limit("api", 1, SECOND)
    for number in range(8):
        counters.hit([(f"before {number}", limit)])
    clock.now -= 3600 * SECOND
    for _ in range(2):
        admitted = [counters.hit([(f"after {number}", limit)]).admitted for number in range(8)]
    assert not any(admitted)


def in_child(call):
    """Run this in a forked process, and return its exit status."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    try:
        call()
    finally:
        os._exit(0)


def test_forked_processes_count_together():
    counters = ProcessCounters(Clock())
    for _ in range(3):
        in_child(lambda: counters.hit([("key", LIMIT)]))
    counters.hit([("key", LIMIT)])
    assert [state[2] for _, state in counters.all_states()[1]] == [4]


def test_a_process_that_is_killed_while_it_counts_stops_no_other():
    counters = ProcessCounters(Clock())

    def die():
        with counters._locked():
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == signal.SIGKILL
    assert counters.hit([("key", LIMIT)]).admitted
