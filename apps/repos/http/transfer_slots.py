"""Slots for git over HTTP and for large downloads: how many are under way at once.

A person has some, an address of people who have not signed in has some, and all of those addresses
have three quarters together. Slots are counted in this process and, with Redis, also in all
processes together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.principal import Principal
from apps.core.errors import TooMany
from apps.core.slots import ALL, Limits, Slots
from apps.site.addresses import address_of

if TYPE_CHECKING:
    from apps.repos.http.shared_slots import SharedSlots

RETRY_AFTER = 10
"""Seconds after which a client is told to try again."""
ANONYMOUS = "nobody"
"""The name under which the slots of all who have not signed in are counted."""
PERSON, ADDRESS = "person:", "address:"


def caller_of(request: HttpRequest, principal: Principal) -> str:
    """The name under which slots and memory of this caller are counted."""
    if principal.person_id is not None:
        return f"{PERSON}{principal.person_id}"
    return f"{ADDRESS}{address_of(request.META, settings.TRUSTED_PROXIES)}"


def limits_of(caller: str) -> Limits:
    """The limits that the settings set for this caller, for anonymous callers, and for all."""
    limits = {ALL: settings.GIT_SLOTS}
    if caller.startswith(PERSON):
        return {caller: settings.GIT_SLOTS_PER_PERSON, **limits}
    anonymous = {ANONYMOUS: three_quarters(settings.GIT_SLOTS)}
    return {caller: settings.GIT_SLOTS_PER_ADDRESS, **limits, **anonymous}


def three_quarters(slots: int) -> int:
    """Three quarters of these slots, at least one."""
    return max(1, slots * 3 // 4)


class TransferSlots(Slots):
    """The slots of this process. Where threads are bounded, transfers leave some to others."""

    def __init__(self) -> None:
        super().__init__(0, refusal=refusal)

    def leave_threads(self, threads: int) -> None:
        """Let transfers have three quarters of the server's threads, and one caller two thirds of
        those.
        """
        self.most = three_quarters(threads)

    def limits_of(self, caller: str) -> Limits:
        limits = limits_of(caller)
        if not self.most:
            return limits
        bounds = {ALL: self.most, ANONYMOUS: three_quarters(self.most)}
        each = max(1, self.most * 2 // 3)
        return {name: min(most, bounds.get(name, each)) for name, most in limits.items()}


def refusal(full: str) -> TooMany:
    """429: the limit of this name is reached."""
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
    from apps.repos.http.shared_slots import SharedSlots  # redis-py takes long to load

    return SharedSlots(settings.REDIS_URL)


@contextmanager
def transfer_slot(request: HttpRequest, principal: Principal) -> Iterator[None]:
    """Hold a slot until the answer has been sent; 429 if none is free.

    It is also released by being forgotten: a server drops the answer, unread and unclosed, to a
    client that leaves before it was made.
    """
    caller = caller_of(request, principal)
    with ExitStack() as held:
        held.enter_context(process_slots.slot(caller))
        if shared := shared_slots():
            name, full = shared.take(limits_of(caller))
            if full:
                raise refusal(full)
            held.callback(shared.give_back, name)
        yield
