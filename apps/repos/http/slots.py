"""Places for git over HTTP: how many of its requests are carried out at once.

A place belongs to a person or, where nobody has signed in, to an address. All of these together
have no more than three of four places. Places are counted in this process and, where there is
Redis, in all processes together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.principal import Principal
from apps.core.errors import TooMany
from apps.site.addresses import address_of

if TYPE_CHECKING:
    from apps.repos.http.shared_slots import SharedSlots

RETRY_AFTER = 10
"""Seconds that a client is told to wait."""
ALL = "all"
NOBODY = "nobody"
"""All who have not signed in."""

Asked = Mapping[str, int]
"""Who asks for a place, each with the most that they may have."""


class Slots:
    """Counts in this process."""

    def __init__(self) -> None:
        # The garbage collector may give a place back in the middle of anything.
        self.lock = RLock()
        self.held = Counter[str]()
        self.most = 0
        """Of all together, where each has a thread of which there are only so many; 0: any."""

    def leave_threads(self, threads: int) -> None:
        """Of so many server threads let git have three quarters, and one person or address two
        thirds of those.
        """
        self.most = max(1, threads * 3 // 4)

    def take(self, asked: Asked) -> str:
        """Take a place for each name, or none at all. Returns the first name that is full, "" when
        all got one.
        """
        with self.lock:
            for who, most in asked.items():
                if self.held[who] >= self._bounded(who, most):
                    return who
            self.held.update(asked.keys())
        return ""

    def give_back(self, asked: Asked) -> None:
        with self.lock:
            self.held -= Counter(asked.keys())  # what has come to nothing goes

    def _bounded(self, who: str, most: int) -> int:
        if not self.most:
            return most
        if who == ALL:
            return min(most, self.most)
        return min(
            most, share_of_nobody(self.most) if who == NOBODY else max(1, self.most * 2 // 3)
        )


here = Slots()


@cache
def together() -> SharedSlots | None:
    """The places of all processes; None without Redis."""
    if not settings.REDIS_URL:
        return None
    from apps.repos.http.shared_slots import SharedSlots  # redis-py takes long to load

    return SharedSlots(settings.REDIS_URL)


@contextmanager
def place(request: HttpRequest, principal: Principal) -> Iterator[None]:
    """Hold a place while the request is carried out; 429 when there is none.

    It comes back when this ends, also by being forgotten: a server drops the answer, unread and
    unclosed, to a client that leaves before it was made.
    """
    asked = asked_for(request, principal)
    with ExitStack() as held:
        if full := here.take(asked):
            raise refusal(full)
        held.callback(here.give_back, asked)
        if shared := together():
            name, full = shared.take(asked)
            if full:
                raise refusal(full)
            held.callback(shared.give_back, name)
        yield


def asked_for(request: HttpRequest, principal: Principal) -> Asked:
    asked = {who(request, principal): most_for(principal), ALL: settings.GIT_SLOTS}
    if principal.person_id is None:
        asked[NOBODY] = share_of_nobody(settings.GIT_SLOTS)
    return asked


def share_of_nobody(places: int) -> int:
    """How many of these places those who have not signed in may have together."""
    return max(1, places * 3 // 4)


def who(request: HttpRequest, principal: Principal) -> str:
    if principal.person_id is not None:
        return f"person:{principal.person_id}"
    return f"address:{address_of(request.META, settings.TRUSTED_PROXIES)}"


def most_for(principal: Principal) -> int:
    anonymous = principal.person_id is None
    return settings.GIT_SLOTS_PER_ADDRESS if anonymous else settings.GIT_SLOTS_PER_PERSON


def refusal(full: str) -> TooMany:
    whose = {ALL: "", NOBODY: " of people who have not signed in"}.get(full, " of this address")
    if full.startswith("person"):
        whose = " of yours"
    again = "Sign in, or try again" if full == NOBODY else "Try again"
    return TooMany(
        "rate_limited",
        f"Too many git requests{whose} are under way. {again} in {RETRY_AFTER} s.",
        headers={"Retry-After": str(RETRY_AFTER)},
    )
