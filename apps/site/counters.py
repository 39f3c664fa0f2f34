"""Counts requests in sliding windows, in memory; shared.py does so in Redis. It knows no Django.

A key has two integers: the requests of the previous window and of the current one. The previous
window counts for the part that a window ending now covers. Times are milliseconds since 1970.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

KEYS_MAX = 100_000
"""Maximum keys in one process, about 250 bytes each; then the least recently used is dropped."""


class Limit(NamedTuple):
    """At most `most` requests in a window of `window` milliseconds."""

    rate_scope: str
    most: int
    window: int


class Count(NamedTuple):
    """Both integers of a key, and the milliseconds since the current window began."""

    previous: int
    current: int
    elapsed: int

    def weight(self, limit: Limit) -> int:
        """The current count times the window, which is a whole number."""
        return self.previous * (limit.window - self.elapsed) + self.current * limit.window

    def has_room(self, limit: Limit) -> bool:
        return self.weight(limit) + limit.window <= limit.most * limit.window

    def left(self, limit: Limit) -> int:
        """Number of requests that are allowed now."""
        return max(0, limit.most - -(-self.weight(limit) // limit.window))

    def wait(self, limit: Limit) -> int:
        """Milliseconds until one more is allowed if no other comes before; 0 for now."""
        if self.has_room(limit):
            return 0
        if self.current < limit.most:
            return _fading(self.previous, limit.most - 1 - self.current, limit) - self.elapsed
        return limit.window - self.elapsed + _fading(self.current, limit.most - 1, limit)


def _fading(previous: int, room: int, limit: Limit) -> int:
    """Milliseconds into a window after which `previous` requests count as `room` or fewer."""
    return max(0, limit.window - room * limit.window // previous)


State = tuple[int, int, int]
"""The stored state of a key: index of the window, requests of the previous and of this window."""


def count_at(now: int, limit: Limit, state: State | None) -> Count:
    """The count of a key at this time."""
    index, elapsed = divmod(now, limit.window)
    if state is None:
        return Count(0, 0, elapsed)
    stored_index, previous, current = state
    if stored_index >= index:  # greater if the clock was set back
        return Count(previous, current, elapsed if stored_index == index else 0)
    return Count(current if stored_index == index - 1 else 0, 0, elapsed)


LimitedKeys = Sequence[tuple[str, Limit]]
"""Keys with their limits. All windows of a key have the same length."""


class Hit(NamedTuple):
    """Whether all keys had room, the count of each afterwards, and the time."""

    admitted: bool
    counts: list[Count]
    now: int


@dataclass
class Usage:
    """Current usage of a limit: the number of callers, and the busiest with its requests."""

    callers: int = 0
    busiest: str = ""
    """The caller in the key: an address, or the id of a user."""
    requests: int = 0


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


class MemoryCounters:
    """Counts in this process."""

    def __init__(self, clock: Callable[[], int] = milliseconds, keys_max: int = KEYS_MAX) -> None:
        self.clock = clock
        self.keys_max = keys_max
        self.lock = Lock()
        self.states: OrderedDict[str, State] = OrderedDict()
        """By key, the least recently used one first."""

    def hit(self, keys: LimitedKeys) -> Hit:
        """Count a request for each key if all have room; else for none."""
        now = self.clock()
        with self.lock:
            counts = [self._count(key, limit, now) for key, limit in keys]
            admitted = all(
                count.has_room(limit) for count, (_, limit) in zip(counts, keys, strict=True)
            )
            if admitted:
                counts = [
                    self._add(key, limit, count, now)
                    for count, (key, limit) in zip(counts, keys, strict=True)
                ]
        return Hit(admitted, counts, now)

    def _count(self, key: str, limit: Limit, now: int) -> Count:
        state = self.states.get(key)
        if state is not None:
            self.states.move_to_end(key)
        return count_at(now, limit, state)

    def all_states(self) -> tuple[int, list[tuple[str, State]]]:
        """The time, and all keys with their states: for the admin, too slow for each request."""
        with self.lock:
            return self.clock(), list(self.states.items())

    def _add(self, key: str, limit: Limit, count: Count, now: int) -> Count:
        index = max(now // limit.window, self.states.get(key, (0, 0, 0))[0])
        self.states[key] = (index, count.previous, count.current + 1)
        if len(self.states) > self.keys_max:
            self.states.popitem(last=False)
        return Count(count.previous, count.current + 1, count.elapsed)
