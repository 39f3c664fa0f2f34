"""Counting in sliding windows, here or in Redis: shared.py. Knows no Django.

Two integers per key: what came in the window before, and in this one. The older counts for the
part of it that a window ending now still covers. Times are milliseconds since 1970.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

MOST_KEYS = 100_000
"""Keys that one process holds, about 250 bytes each; beyond it the longest unused one goes."""


class Limit(NamedTuple):
    """At most `most` in a window of so many milliseconds."""

    rate_scope: str
    most: int
    window: int


class Count(NamedTuple):
    """A key as it stands: both integers, and how far into the window that is."""

    previous: int
    current: int
    elapsed: int

    def weight(self, limit: Limit) -> int:
        """What counts now, times the window, so that it is a whole number."""
        return self.previous * (limit.window - self.elapsed) + self.current * limit.window

    def has_room(self, limit: Limit) -> bool:
        return self.weight(limit) + limit.window <= limit.most * limit.window

    def left(self, limit: Limit) -> int:
        """How many more requests it has room for now."""
        return max(0, limit.most - -(-self.weight(limit) // limit.window))

    def wait(self, limit: Limit) -> int:
        """Milliseconds until there is room for one more, when no other comes; 0 for at once."""
        if self.has_room(limit):
            return 0
        if self.current < limit.most:
            return _fading(self.previous, limit.most - 1 - self.current, limit) - self.elapsed
        return limit.window - self.elapsed + _fading(self.current, limit.most - 1, limit)


def _fading(older: int, room: int, limit: Limit) -> int:
    """How far into a window the count of the one before has faded to `room`."""
    return max(0, limit.window - room * limit.window // older)


State = tuple[int, int, int]
"""What is kept of a key: the index of its window, the count of the one before, and of this one."""


def count_at(now: int, limit: Limit, kept: State | None) -> Count:
    """A key as it stands at this time."""
    index, elapsed = divmod(now, limit.window)
    if kept is None:
        return Count(0, 0, elapsed)
    then, previous, current = kept
    if then >= index:  # greater where the clock was set back
        return Count(previous, current, elapsed if then == index else 0)
    return Count(current if then == index - 1 else 0, 0, elapsed)


Asked = Sequence[tuple[str, Limit]]
"""Keys with their limits. A key belongs to one length of window."""


class Hit(NamedTuple):
    """Whether all had room, each as it stands afterwards, and when that was."""

    admitted: bool
    counts: list[Count]
    now: int


@dataclass
class Usage:
    """How a limit is used now: by how many callers, and by which one most, how often."""

    callers: int = 0
    busiest: str = ""
    """The caller's part of the key: an address, or the id of a user."""
    most: int = 0


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


class MemoryCounters:
    """Counts in this process."""

    def __init__(self, clock: Callable[[], int] = milliseconds, most_keys: int = MOST_KEYS) -> None:
        self.clock = clock
        self.most_keys = most_keys
        self.lock = Lock()
        self.kept: OrderedDict[str, State] = OrderedDict()
        """The longest unused key first."""

    def hit(self, asked: Asked) -> Hit:
        """Count one for each key, if all of them have room; else for none."""
        now = self.clock()
        with self.lock:
            counts = [self._count(key, limit, now) for key, limit in asked]
            admitted = all(
                count.has_room(limit) for count, (_, limit) in zip(counts, asked, strict=True)
            )
            if admitted:
                counts = [
                    self._add(key, limit, count, now)
                    for count, (key, limit) in zip(counts, asked, strict=True)
                ]
        return Hit(admitted, counts, now)

    def _count(self, key: str, limit: Limit, now: int) -> Count:
        found = self.kept.get(key)
        if found is not None:
            self.kept.move_to_end(key)
        return count_at(now, limit, found)

    def all_kept(self) -> tuple[int, list[tuple[str, State]]]:
        """The time, and every key with its state: for people who look, not for requests."""
        with self.lock:
            return self.clock(), list(self.kept.items())

    def _add(self, key: str, limit: Limit, count: Count, now: int) -> Count:
        index = max(now // limit.window, self.kept.get(key, (0, 0, 0))[0])
        self.kept[key] = (index, count.previous, count.current + 1)
        if len(self.kept) > self.most_keys:
            self.kept.popitem(last=False)
        return Count(count.previous, count.current + 1, count.elapsed)
