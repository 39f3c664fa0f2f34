"""How many gits answer reads at once in this process, so that crawlers leave room for others.

Light: what takes milliseconds. Heavy: compare, blame, archive, a filtered log; one person, or one
address of nobody, has two of these at most and never the last. Callers who wait take turns, for
five seconds; then, or when too many wait, they get a 503: each keeps a server thread from others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Condition

from apps.core.errors import PLAIN, Unavailable

PATIENCE = 5.0
"""Seconds to wait for a place."""
RETRY_AFTER = 5
"""Seconds after which a client is told to try again."""
CPUS = os.cpu_count() or 1
MOST_HEAVY = max(2, CPUS // 2)
MOST_OF_ONE = 2
MOST_WAITING, MOST_WAITING_OF_ONE = 4, 2
MOST_ARCHIVES = 2 * CPUS

_light = BoundedSemaphore(2 * CPUS)


@dataclass(eq=False)
class Ticket:
    """Somebody's turn in the queue for a place."""

    who: str


class HeavySlots:
    """Places for heavy work, counted for all and for each. Nobody holds the last one of several.

    Who waits is in a queue: a place that comes free is handed to them before anybody new may take
    it. First comes the caller with fewest places, then the one whose turn is longest ago.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most, self.most_of_one = most, most_of_one
        self.held = Counter[str]()
        self.queue = list[Ticket]()
        self.changed = Condition()

    @property
    def waiting(self) -> Counter[str]:
        """How many wait, by caller."""
        return Counter(ticket.who for ticket in self.queue)

    def is_free(self, who: str) -> bool:
        most_of_one = min(self.most_of_one, max(1, self.most - 1))
        return self.held.total() < self.most and self.held[who] < most_of_one

    def may_wait(self, who: str) -> bool:
        return len(self.queue) < MOST_WAITING and self.waiting[who] < MOST_WAITING_OF_ONE

    @contextmanager
    def place(self, who: str, *, waits: bool = True) -> Iterator[None]:
        """Hold a place; 503 when there is none in time, or too many wait."""
        with self.changed:
            if self.is_free(who):
                self.held[who] += 1
            elif waits:
                self.wait(who)
            else:
                raise busy()
        try:
            yield
        finally:
            with self.changed:
                self.held -= Counter([who])  # what has come to nothing goes
                self.hand_over()

    def wait(self, who: str) -> None:
        """Wait until a place has been handed over; 503. The caller holds the lock."""
        if not self.may_wait(who):
            raise busy()
        ticket = Ticket(who)
        self.queue.append(ticket)
        if not self.changed.wait_for(lambda: ticket not in self.queue, PATIENCE):
            self.queue.remove(ticket)
            raise busy()

    def hand_over(self) -> None:
        """Give what is free to those who wait. The caller holds the lock."""
        while eligible := [ticket for ticket in self.queue if self.is_free(ticket.who)]:
            ticket = min(eligible, key=lambda one: self.held[one.who])  # of equals the first
            self.queue.remove(ticket)
            self.queue.sort(key=lambda one: one.who == ticket.who)  # its caller goes to the end
            self.held[ticket.who] += 1
        self.changed.notify_all()


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
