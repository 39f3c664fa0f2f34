"""A cap for what all requests of this process keep of their bodies together."""

from __future__ import annotations

from threading import Lock

from apps.core.errors import unavailable

FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small ones always find room."""


class Room:
    """So many bytes, which requests take and give back."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.lock = Lock()

    def take(self, count: int) -> None:
        """503 `unavailable`, and nothing taken, when there are fewer."""
        with self.lock:
            if count > self.left:
                raise unavailable()
            self.left -= count

    def give_back(self, count: int) -> None:
        with self.lock:
            self.left += count


room = Room(256 * 1024 * 1024)
