"""A cap for what all requests of this process keep of their bodies together, and for the time that
a body may take to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from apps.core.errors import BadRequest, unavailable

FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small ones always find room."""
UPLOAD_LIMIT = 14 * 1024 * 1024
"""Bytes of the one request that holds a file: 10 MiB are 13.4 in base64."""
LONGEST = 120
"""Seconds that a body may take to come, if it is no push."""


class Room:
    """So many bytes, which requests take and give back, and how many of them one person or address
    has at most: whoever lets bodies wait would leave nothing to all others.
    """

    def __init__(self, size: int, most_for_one: int) -> None:
        self.left, self.most_for_one = size, most_for_one
        self.taken_by = Counter[str]()
        self.lock = RLock()  # given back by the garbage collector, too

    def take(self, count: int, who: str) -> None:
        """503 `unavailable`, and nothing taken, when there are fewer."""
        with self.lock:
            if count > min(self.left, self.most_for_one - self.taken_by[who]):
                raise unavailable()
            self._move(count, who)

    def give_back(self, count: int, who: str) -> None:
        with self.lock:
            self._move(-count, who)

    def _move(self, count: int, who: str) -> None:
        self.left -= count
        self.taken_by[who] += count
        if not self.taken_by[who]:
            del self.taken_by[who]

    @contextmanager
    def share(self, who: str) -> Iterator[Share]:
        """What one body takes, given back at the end or when it is forgotten."""
        share = Share(self, who)
        try:
            yield share
        finally:
            share.give_back()


class Share:
    """What one body has taken of a room, for a person or an address: a text that is theirs."""

    def __init__(self, room: Room, who: str) -> None:
        self.room, self.who, self.taken = room, who, 0
        self.over = False
        """Set at the end: a thread that still reads takes nothing more."""

    def grow_to(self, size: int) -> None:
        """Take what is counted of a body that has so many bytes by now; 503 as `Room.take`."""
        with self.room.lock:
            more = 0 if self.over else max(0, size - FREE) - self.taken
            self.room.take(more, self.who)
            self.taken += more

    def give_back(self) -> None:
        with self.room.lock:
            self.room.give_back(self.taken, self.who)
            self.taken, self.over = 0, True


def too_slow(seconds: float) -> BadRequest:
    """400 for a body that takes longer to come."""
    return BadRequest("malformed_request", f"The body took longer than {seconds} s to come.")


room = Room(256 * 1024 * 1024, 64 * 1024 * 1024)
upload_room = Room(84 * 1024 * 1024, 42 * 1024 * 1024)
"""For the bodies that hold a file, six of the largest: about three times as much is made of each.
It is apart, so that they take no room from others.
"""
