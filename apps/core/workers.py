"""Memory that the worker processes of one server share: their connections, and users' streams.

Import it before they fork. It knows no Django.
"""

from __future__ import annotations

import mmap
from typing import Any

MOST = 256
"""Most worker processes. More of them share the last place."""
STREAMS = 16_384
"""Most streams of a process that are counted."""
FREE = -1
"""The number of connections in a place without a worker."""


def shared(count: int) -> memoryview[int]:
    """This many integers of 8 bytes, all 0, that forked processes share."""
    return memoryview(mmap.mmap(-1, count * 8)).cast("q")


class Workers:
    """Each worker has a place, and writes to the memory of its place alone."""

    def __init__(self) -> None:
        self.connections = shared(MOST)
        """The number of open connections in each place."""
        for place in range(MOST):
            self.connections[place] = FREE
        self.users = shared(MOST * STREAMS)
        """The user of each open stream; 0 where there is none."""
        self.tops = shared(MOST)
        """How far `users` is in use in each place."""
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
            for cell in range(place * STREAMS, place * STREAMS + self.tops[place]):
                self.users[cell] = 0
            self.tops[place] = 0

    def add_connections(self, number: int) -> None:
        """Count opened connections of this process, or closed ones if the number is negative."""
        self.connections[self.place] += number

    def is_ahead(self) -> bool:
        """Whether another process has fewer connections than this one."""
        mine = self.connections[self.place]
        return any(FREE < count < mine for count in self.connections.tolist())

    def streams_of(self, user_id: int) -> int:
        """The number of a user's open streams in all processes."""
        return sum(
            self.users[place * STREAMS : place * STREAMS + top].tolist().count(user_id)
            for place, top in enumerate(self.tops.tolist())
            if top
        )

    def open_stream(self, user_id: int) -> None:
        """Count one more stream of a user in this process, from its event loop."""
        start, top = self.place * STREAMS, self.tops[self.place]
        cells = self.users[start : start + top].tolist()
        free = cells.index(0) if 0 in cells else top
        if free < STREAMS:
            self.users[start + free] = user_id
            self.tops[self.place] = max(top, free + 1)

    def close_stream(self, user_id: int) -> None:
        """Count one stream less."""
        start, top = self.place * STREAMS, self.tops[self.place]
        cells = self.users[start : start + top].tolist()
        if user_id in cells:
            self.users[start + cells.index(user_id)] = 0


workers = Workers()
