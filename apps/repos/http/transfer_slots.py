"""Slots for git over HTTP and for large downloads: limits of how many run at once.

There is a limit for each person, for each address of anonymous callers, and for all transfers. All
anonymous callers together get three quarters of the slots. Slots are counted in all processes of a
server and, with Redis, in those of all servers together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.principal import Principal
from apps.core import metrics
from apps.core.errors import TooMany
from apps.core.requests import address_of
from apps.core.slots import ALL, Limits, Slots
from apps.core.workers import workers

if TYPE_CHECKING:
    from apps.repos.http.shared_slots import SharedSlots

RETRY_AFTER = 10
"""Seconds in `Retry-After`."""
ANONYMOUS = "nobody"
"""The key under which the slots of all anonymous callers are counted."""
PERSON, ADDRESS = "person:", "address:"


def caller_of(request: HttpRequest, principal: Principal) -> str:
    """The key under which the slots and memory of this caller are counted."""
    if principal.person_id is not None:
        return f"{PERSON}{principal.person_id}"
    return f"{ADDRESS}{address_of(request.META, settings.TRUSTED_PROXIES)}"


def limits_of(caller: str) -> Limits:
    """The limits of the settings that apply to this caller, by key."""
    limits = {ALL: settings.GIT_SLOTS}
    if caller.startswith(PERSON):
        return {caller: settings.GIT_SLOTS_PER_PERSON, **limits}
    anonymous = {ANONYMOUS: three_quarters(settings.GIT_SLOTS)}
    return {caller: settings.GIT_SLOTS_PER_ADDRESS, **limits, **anonymous}


def three_quarters(slots: int) -> int:
    return max(1, slots * 3 // 4)


class TransferSlots(Slots):
    """The slots of this server. With a fixed number of threads, transfers leave some free.

    Two processes that take the last slot at the same moment may both get it.
    """

    def __init__(self) -> None:
        super().__init__(0, refusal=refusal)

    def leave_threads(self, threads: int) -> None:
        """Limit transfers to three quarters of the server's threads, and each caller to two thirds
        of those.
        """
        self.most = three_quarters(threads)

    def limits_of(self, caller: str) -> Limits:
        limits = limits_of(caller)
        if not self.most:
            return limits
        bounds = {ALL: self.most, ANONYMOUS: three_quarters(self.most)}
        each = max(1, self.most * 2 // 3)
        return {name: min(most, bounds.get(name, each)) for name, most in limits.items()}

    def full(self, caller: str, weight: int = 1) -> str:
        limits = limits_of(caller).items()
        full_in_all = (
            name for name, most in limits if workers.transfers.count(name) + weight > most
        )
        return super().full(caller, weight) or next(full_in_all, "")

    def _add(self, caller: str, weight: int) -> None:
        super()._add(caller, weight)
        change = workers.transfers.add if weight > 0 else workers.transfers.remove
        for name in limits_of(caller):
            change(workers.place, name)


def refusal(full: str) -> TooMany:
    """429 for a limit that is reached; `full` is its key."""
    metrics.slots_refused.add(
        {ALL: "all", ANONYMOUS: "anonymous"}.get(full, full.partition(":")[0])
    )
    whose = {ALL: "", ANONYMOUS: " of people who have not signed in"}.get(full, " of this address")
    if full.startswith(PERSON):
        whose = " of yours"
    again = "Sign in, or try again" if full == ANONYMOUS else "Try again"
    return TooMany(
        "rate_limited",
        f"Too many git requests{whose} are under way. {again} in {RETRY_AFTER} s.",
        headers={"Retry-After": str(RETRY_AFTER)},
    )


process_slots = TransferSlots()


@cache
def shared_slots() -> SharedSlots | None:
    """The slots of all processes; None without Redis."""
    if not settings.REDIS_URL:
        return None
    from apps.repos.http.shared_slots import SharedSlots  # importing redis-py is slow

    return SharedSlots(settings.REDIS_URL)


def transfer_slot(request: HttpRequest, principal: Principal) -> AbstractContextManager[None]:
    """`hold_slot` for the caller of a request."""
    return hold_slot(caller_of(request, principal))


@contextmanager
def hold_slot(caller: str) -> Iterator[None]:
    """Hold a slot until the answer has been sent; 429 if none is free.

    The slot is also released when the generator is garbage-collected: if the client disconnects
    before the answer exists, the server neither reads nor closes the answer.
    """
    with ExitStack() as held:
        held.enter_context(process_slots.slot(caller))
        if shared := shared_slots():
            name, full = shared.take(limits_of(caller))
            if full:
                raise refusal(full)
            held.callback(shared.give_back, name)
        yield
