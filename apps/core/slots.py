"""Slots limit how much of a resource the requests of this process use at the same time.

A caller is a text for a person or an address. A slot has weight 1, or more if bytes are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock

from apps.core.errors import ApiError

ALL = "all"
"""Name under which the slots of all callers are counted."""
PATIENCE = 5.0
"""Seconds to wait in a queue."""

Limits = Mapping[str, int]
"""Names under which a slot is counted, each with its maximum weight."""


@dataclass(eq=False)
class Ticket:
    """A caller's turn in a queue."""

    caller: str
    turn: Lock = field(default_factory=Lock)
    """Locked until the caller has its slot."""


class Slots:
    """A number of slots for all callers, with a limit for each caller.

    Waiting callers get a released slot before new callers: first the one with the fewest slots, and
    of several the one that has waited longest since its last turn.
    """

    def __init__(
        self,
        most: int,
        per_caller: int | None = None,
        *,
        refusal: Callable[[str], ApiError],
        queue: int = 0,
        queue_per_caller: int | None = None,
        free: int = 0,
    ) -> None:
        """`refusal` makes the error for the name whose limit is reached. `queue` callers may wait.
        The first `free` of each growing hold is not counted.
        """
        self.most, self.per_caller, self.free = most, per_caller, free
        self.refusal = refusal
        self.queue_most, self.queue_per_caller = queue, queue_per_caller or queue
        self.held = Counter[str]()
        self.queue = list[Ticket]()
        # The garbage collector may release a slot at any time, even in a thread that has the lock.
        self.lock = RLock()

    @property
    def waiting(self) -> Counter[str]:
        """Number of waiting requests by caller."""
        return Counter(ticket.caller for ticket in self.queue)

    def limits_of(self, caller: str) -> Limits:
        """Names under which slots of this caller are counted, with their limits."""
        if self.per_caller is None:
            return {ALL: self.most}
        return {caller: self.per_caller, ALL: self.most}

    def full(self, caller: str, weight: int = 1) -> str:
        """The first name whose limit has no room for this weight; "" if there is none."""
        limits = self.limits_of(caller).items()
        return next((name for name, most in limits if self.held[name] + weight > most), "")

    @contextmanager
    def slot(self, caller: str = "", *, waits: bool = True) -> Iterator[None]:
        """Hold a slot. Raises the refusal if none is free in time, or too many callers wait."""
        if ticket := self._take_or_queue(caller, waits=waits):
            self._wait(ticket)
        try:
            yield
        finally:
            self.give_back(caller)

    @contextmanager
    def hold(self, caller: str) -> Iterator[Hold]:
        """A slot that starts without weight and can grow. It is released at the end, or by the
        garbage collector.
        """
        hold = Hold(self, caller)
        try:
            yield hold
        finally:
            hold.release()

    def take(self, caller: str, weight: int) -> None:
        """Take a slot of this weight; without room raises the refusal and takes nothing."""
        with self.lock:
            if full := self.full(caller, weight):
                raise self.refusal(full)
            self._add(caller, weight)

    def give_back(self, caller: str, weight: int = 1) -> None:
        with self.lock:
            self._add(caller, -weight)
            self._hand_over()

    def _add(self, caller: str, weight: int) -> None:
        for name in self.limits_of(caller):
            self.held[name] += weight
            if not self.held[name]:
                del self.held[name]

    def _take_or_queue(self, caller: str, *, waits: bool) -> Ticket | None:
        with self.lock:
            if not (full := self.full(caller)):
                self._add(caller, 1)
                return None
            may_wait = (
                len(self.queue) < self.queue_most and self.waiting[caller] < self.queue_per_caller
            )
            if not (waits and may_wait):
                raise self.refusal(full)
            ticket = Ticket(caller)
            ticket.turn.acquire()
            self.queue.append(ticket)
            return ticket

    def _wait(self, ticket: Ticket) -> None:
        # A plain lock: the garbage collector could call a lock written in Python while the same
        # thread is inside it.
        if ticket.turn.acquire(timeout=PATIENCE):
            return
        with self.lock:
            if ticket in self.queue:
                self.queue.remove(ticket)
                raise self.refusal(self.full(ticket.caller) or ALL)

    def _hand_over(self) -> None:
        """Give free slots to waiting callers. Call it while holding the lock."""
        while eligible := [ticket for ticket in self.queue if not self.full(ticket.caller)]:
            ticket = min(
                eligible, key=lambda ticket: self.held[ticket.caller]
            )  # the first of several
            self.queue.remove(ticket)
            self._add(ticket.caller, 1)
            self.queue.sort(
                key=lambda other: other.caller == ticket.caller
            )  # its next turn comes last
            ticket.turn.release()


class Hold:
    """A slot of one caller with growing weight, such as the memory for a body being received."""

    def __init__(self, slots: Slots, caller: str) -> None:
        self.slots, self.held_by, self.weight = slots, caller, 0
        self.is_over = False
        """Set by `release`, after which a thread that still reads takes nothing more."""

    def grow_to(self, size: int) -> None:
        """Grow to the weight of `size`, without the free part; raises the refusal without room."""
        with self.slots.lock:
            more = 0 if self.is_over else max(0, size - self.slots.free) - self.weight
            self.slots.take(self.held_by, more)
            self.weight += more

    def release(self) -> None:
        with self.slots.lock:
            self.slots.give_back(self.held_by, self.weight)
            self.weight, self.is_over = 0, True
