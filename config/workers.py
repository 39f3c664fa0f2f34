"""Memory that the worker processes of one server share, from before their start."""

from __future__ import annotations

import mmap
import struct
from typing import Any

MOST = 256
"""Most worker processes whose connections are counted."""
SIZE = struct.calcsize("i")
FREE = -1
"""The count in a place without a worker."""


class Connections:
    """The number of open connections of each worker process.

    The system gives a new connection to any process that asks, and may give all to one of them.
    A process that has more than another lets that one take it.
    """

    def __init__(self) -> None:
        self.counts = memoryview(mmap.mmap(-1, MOST * SIZE)).cast("i")
        for place in range(MOST):
            self.counts[place] = FREE
        self.places: dict[Any, int] = {}
        """The place of each worker; known to the master."""
        self.place: int | None = None
        """The place of this process."""

    def assign(self, worker: Any) -> None:
        """Give a new worker a place, in the master before it forks."""
        counts = self.counts.tolist()
        self.place = counts.index(FREE) if FREE in counts else None
        if self.place is not None:
            self.places[worker] = self.place
            self.counts[self.place] = 0

    def forget(self, worker: Any) -> None:
        """Free the place of a worker that has ended, in the master."""
        place = self.places.pop(worker, None)
        if place is not None:
            self.counts[place] = FREE

    def add(self, number: int) -> None:
        """Count opened connections of this process, or closed ones if the number is negative."""
        if self.place is not None:
            self.counts[self.place] += number

    def is_ahead(self) -> bool:
        """Whether another process has fewer connections than this one."""
        if self.place is None:
            return False
        mine = self.counts[self.place]
        return any(FREE < count < mine for count in self.counts.tolist())


connections = Connections()
