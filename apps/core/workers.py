"""Memory that the worker processes of one server share. Import it before they fork.

It knows no Django.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable
from typing import Any

MOST = 256
"""Most worker processes. More of them share the last place."""
STREAMS, TRANSFERS = 16_384, 1024
"""Most streams and transfers of a process that are counted."""
FREE = -1
"""The number of connections in a place without a worker."""


def shared(count: int) -> memoryview[int]:
    """This many integers of 8 bytes, all 0, that forked processes share."""
    return memoryview(mmap.mmap(-1, count * 8)).cast("q")


class Tally:
    """Counts keys in all workers, such as the users of streams.

    A worker has cells of its own, which hold the hashes of its keys. Forked processes have the same
    hash of a text. The caller sees to it that one thread at a time changes a place.
    """

    def __init__(self, size: int) -> None:
        """`size`: the most keys of a worker."""
        self.size = size
        self.cells = shared(MOST * size)
        self.tops = shared(MOST)
        """How many cells have been in use in each place."""

    def count(self, key: Hashable) -> int:
        """How often a key is counted in all places."""
        return sum(self._used(place).count(hash(key)) for place, top in self._places() if top)

    def total(self) -> int:
        """How many keys are counted in all places."""
        return sum(top - self._used(place).count(0) for place, top in self._places() if top)

    def add(self, place: int, key: Hashable) -> None:
        used = self._used(place)
        free = used.index(0) if 0 in used else len(used)
        if free < self.size:
            self.cells[place * self.size + free] = hash(key)
            self.tops[place] = max(len(used), free + 1)

    def remove(self, place: int, key: Hashable) -> None:
        used = self._used(place)
        if hash(key) in used:
            self.cells[place * self.size + used.index(hash(key))] = 0

    def clear(self, place: int) -> None:
        for cell in range(self.tops[place]):
            self.cells[place * self.size + cell] = 0
        self.tops[place] = 0

    def _used(self, place: int) -> list[int]:
        start = place * self.size
        return self.cells[start : start + self.tops[place]].tolist()

    def _places(self) -> enumerate[int]:
        return enumerate(self.tops.tolist())


class Workers:
    """Each worker has a place, and writes to the memory of its place alone."""

    def __init__(self) -> None:
        self.connections = shared(MOST)
        """The number of open connections in each place."""
        for place in range(MOST):
            self.connections[place] = FREE
        self.streams, self.transfers = Tally(STREAMS), Tally(TRANSFERS)
        """The users of open streams, and the keys of transfers by git."""
        self.hubs = shared(MOST)
        """The id of the last event that the hub in each place has read; 0 if it does not read."""
        self.limit_changes = shared(1)
        """The number of changes of rate limits."""
        self.places: dict[Any, int] = {}
        """The place of each worker; known to the master."""
        self.place = 0
        """The place of this process."""

    def assign(self, worker: Any) -> None:
        """Give a new worker a place, in the master before it forks."""
        counts = self.connections.tolist()
        self.place = counts.index(FREE) if FREE in counts else MOST - 1
        self.places[worker] = self.place
        self.connections[self.place] = 0

    def forget(self, worker: Any) -> None:
        """Free the place of a worker that has ended, in the master."""
        place = self.places.pop(worker, None)
        if place is not None:
            self.connections[place] = FREE
            self.hubs[place] = 0
            self.streams.clear(place)
            self.transfers.clear(place)

    def add_connections(self, number: int) -> None:
        """Count opened connections of this process, or closed ones if the number is negative."""
        self.connections[self.place] += number

    def is_ahead(self) -> bool:
        """Whether another process has fewer connections than this one."""
        mine = self.connections[self.place]
        return any(FREE < count < mine for count in self.connections.tolist())


workers = Workers()
