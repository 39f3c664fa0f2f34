"""Counts requests in sliding windows, in memory; shared.py does so in Redis. It knows no Django.

A key has two integers: the requests of the previous window and of the current one. The previous
window counts for the part that a window ending now covers. Times are milliseconds since 1970.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
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


def window_at(now: int, limit: Limit, state: State | None) -> int:
    """The index of the window that counts now: the stored one if the clock was set back into the
    window before it, so that this gives nothing away. Set back further, the clock would refuse
    everybody until it is where it was; counting begins anew instead.
    """
    index = now // limit.window
    return index + 1 if state is not None and state[0] == index + 1 else index


def count_at(now: int, limit: Limit, state: State | None) -> Count:
    """The count of a key at this time."""
    index = window_at(now, limit, state)
    stored_index, previous, current = state or (index, 0, 0)
    elapsed = max(0, now - index * limit.window)
    if stored_index == index:
        return Count(previous, current, elapsed)
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
        with self._locked():
            now = self.clock()
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
        return count_at(now, limit, self._state(key))

    def all_states(self) -> tuple[int, list[tuple[str, State]]]:
        """The time, and all keys with their states: for the admin, too slow for each request."""
        with self._locked():
            return self.clock(), list(self._states())

    def _add(self, key: str, limit: Limit, count: Count, now: int) -> Count:
        index = window_at(now, limit, self._state(key))
        self._store(key, (index, count.previous, count.current + 1), now)
        return Count(count.previous, count.current + 1, count.elapsed)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.lock:
            yield

    def _state(self, key: str) -> State | None:
        state = self.states.get(key)
        if state is not None:
            self.states.move_to_end(key)
        return state

    def _store(self, key: str, state: State, now: int) -> None:
        self.states[key] = state
        if len(self.states) > self.keys_max:
            self.states.popitem(last=False)

    def _states(self) -> Iterator[tuple[str, State]]:
        yield from self.states.items()


ENTRIES = 8
"""Entries in a bucket. A new key takes the place of the one with the oldest request; one after the
present, from before the clock was set back, is the oldest.
"""
KEY_SIZE = 96
"""Bytes of a key that are stored, for the admin."""


class ProcessCounters(MemoryCounters):
    """Counts in memory that the processes of one server share.

    Create it before they fork: only then they have the same memory, and the same `hash` of a key.
    The table has a fixed number of buckets. A file lock protects it, because the system releases
    the lock of a killed process.
    """

    def __init__(self, clock: Callable[[], int] = milliseconds, keys_max: int = KEYS_MAX) -> None:
        super().__init__(clock, keys_max)
        entries = -(-keys_max // ENTRIES) * ENTRIES
        self.hashes = memoryview(mmap.mmap(-1, entries * 8)).cast("q")
        """The hash of each key; 0 in free entries."""
        self.numbers = memoryview(mmap.mmap(-1, entries * 4 * 8)).cast("q")
        """The time of each key's last request, and its state."""
        self.keys = mmap.mmap(-1, entries * KEY_SIZE)
        self.file = os.memfd_create("counters")
        weakref.finalize(self, os.close, self.file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN)

    def _bucket(self, key: str) -> tuple[int, int, list[int]]:
        """The hash of a key, and its bucket: the first entry, and the hashes in it."""
        hashed = hash(key) or 1
        first = hashed % (len(self.hashes) // ENTRIES) * ENTRIES
        return hashed, first, self.hashes[first : first + ENTRIES].tolist()

    def _state(self, key: str) -> State | None:
        hashed, first, hashes = self._bucket(key)
        if hashed not in hashes:
            return None
        start = (first + hashes.index(hashed)) * 4
        index, previous, current = self.numbers[start + 1 : start + 4].tolist()
        return index, previous, current

    def _store(self, key: str, state: State, now: int) -> None:
        hashed, first, hashes = self._bucket(key)
        if hashed in hashes:
            entry = first + hashes.index(hashed)
        else:
            times = [self.numbers[entry * 4] for entry in range(first, first + ENTRIES)]
            oldest = min(range(ENTRIES), key=lambda entry: times[entry] * (times[entry] <= now))
            entry = first + oldest
            self.hashes[entry] = hashed
            start = entry * KEY_SIZE
            self.keys[start : start + KEY_SIZE] = key.encode()[:KEY_SIZE].ljust(KEY_SIZE, b"\0")
        start = entry * 4
        for number, value in enumerate((now, *state)):
            self.numbers[start + number] = value

    def _states(self) -> Iterator[tuple[str, State]]:
        for entry, hashed in enumerate(self.hashes.tolist()):
            if hashed:
                start = entry * KEY_SIZE
                key = self.keys[start : start + KEY_SIZE].rstrip(b"\0").decode(errors="replace")
                index, previous, current = self.numbers[entry * 4 + 1 : entry * 4 + 4].tolist()
                yield key, (index, previous, current)


@cache
def process_counters() -> ProcessCounters:
    """The counters that this process shares with those that it forks from now on."""
    return ProcessCounters()
