"""How many gits answer reads at once in this process, so that crawlers leave room for others.

Light: what takes milliseconds. Heavy: compare, blame, archive, a filtered log; of these one person,
or one address of nobody, has two at most. Who finds no place within five seconds gets a 503; who
would be one too many to wait, at once: each who waits keeps a thread of the server from others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import BoundedSemaphore, Condition

from apps.core.errors import PLAIN, Unavailable

PATIENCE = 5.0
"""Seconds to wait for a place."""
RETRY_AFTER = 5
"""Seconds after which a client is told to try again."""
CPUS = os.cpu_count() or 1
MOST_HEAVY = max(1, CPUS // 2)
MOST_OF_ONE = 2
MOST_WAITING, MOST_WAITING_OF_ONE = 4, 2
MOST_ARCHIVES = 2 * CPUS

_light = BoundedSemaphore(2 * CPUS)


class HeavySlots:
    """Places for heavy work, counted for all and for each."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most, self.most_of_one = most, most_of_one
        self.held, self.waiting = Counter[str](), Counter[str]()
        self.changed = Condition()

    def is_free(self, who: str) -> bool:
        return self.held.total() < self.most and self.held[who] < self.most_of_one

    def may_wait(self, who: str) -> bool:
        return self.waiting.total() < MOST_WAITING and self.waiting[who] < MOST_WAITING_OF_ONE

    @contextmanager
    def place(self, who: str, *, waits: bool = True) -> Iterator[None]:
        """Hold a place; 503 when there is none in time, or too many wait."""
        with self.changed:
            if not self.is_free(who):
                if not waits:
                    raise busy()
                self.wait(who)
            self.held[who] += 1
        try:
            yield
        finally:
            with self.changed:
                self.held -= Counter([who])  # what has come to nothing goes
                self.changed.notify_all()

    def wait(self, who: str) -> None:
        """Wait until there is a place; 503. The caller holds the lock."""
        if not self.may_wait(who):
            raise busy()
        self.waiting[who] += 1
        try:
            if not self.changed.wait_for(lambda: self.is_free(who), PATIENCE):
                raise busy()
        finally:
            self.waiting -= Counter([who])


heavy_slots = HeavySlots(MOST_HEAVY, MOST_OF_ONE)
archive_slots = HeavySlots(MOST_ARCHIVES, 1)


@contextmanager
def light() -> Iterator[None]:
    """Hold a place for git's quick answers; 503 when there is none in time."""
    if not _light.acquire(timeout=PATIENCE):
        raise busy()
    try:
        yield
    finally:
        _light.release()


def heavy(who: str) -> AbstractContextManager[None]:
    """Hold a place for git's slow answers. `who`: a person or an address, as `slots.who` says."""
    return heavy_slots.place(who)


def heavy_if_free(who: str) -> AbstractContextManager[None]:
    """The same for what an answer can do without: 503 at once where there is no place."""
    return heavy_slots.place(who, waits=False)


def archive(who: str) -> AbstractContextManager[None]:
    """Hold a place for an archive while it is sent, each one at a time. These have places of their
    own, since a slow client would keep everybody from what else is heavy.
    """
    return archive_slots.place(who)


def busy() -> Unavailable:
    """503: all places are taken."""
    return Unavailable(*PLAIN[503], headers={"Retry-After": str(RETRY_AFTER)})
