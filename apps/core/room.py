"""A cap for what all requests of this process keep of their bodies together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

from apps.core.errors import unavailable

FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small ones always find room."""


class Room:
    """So many bytes, which requests take and give back."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.lock = RLock()  # given back by the garbage collector, too

    def take(self, count: int) -> None:
        """503 `unavailable`, and nothing taken, when there are fewer."""
        with self.lock:
            if count > self.left:
                raise unavailable()
            self.left -= count

    def give_back(self, count: int) -> None:
        with self.lock:
            self.left += count

    @contextmanager
    def kept(self, size: int) -> Iterator[None]:
        """Take what is counted of a body of this size, and give it back at the end."""
        with self.growing() as grow:
            grow(size)
            yield

    @contextmanager
    def growing(self) -> Iterator[Callable[[int], None]]:
        """For what is kept as it comes: call it with the size of each piece."""
        size = taken = 0

        def grow(piece: int) -> None:
            nonlocal size, taken
            size += piece
            counted = max(0, size - FREE)
            self.take(counted - taken)
            taken = counted

        try:
            yield grow
        finally:
            self.give_back(taken)


room = Room(256 * 1024 * 1024)
