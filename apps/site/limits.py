"""Rate limits: the API, git, the stream and the pages count their requests here.

What counts for which limit: docs/rate-limits.md. Counting itself: counters.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from functools import cache
from threading import Lock
from typing import Any, cast

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import F
from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

from apps.core.access import Person
from apps.core.errors import TooMany, unavailable
from apps.core.requests import SiteRequest, address_of
from apps.site.counters import Count, Limit, MemoryCounters, Usage, count_at
from apps.site.kinds import USER, RateScope
from apps.site.models import RateLimit, SiteSettings

MOST_MAIL = Limit("mail", 5, 3600 * 1000)
"""Messages to one address in an hour. It holds whatever staff records: who gets them may be no
member of this site."""

BY_ADDRESS = (RateScope.LOGIN, RateScope.SIGNUP)
"""What counts for an address, whoever is signed in there."""

ACCOUNT_WINDOWS = 15
"""How many windows of the limit `login` the tries of one account are counted in."""


@cache
def counters() -> MemoryCounters:
    """This process's way to count: Redis where there is one, else its own memory."""
    if settings.REDIS_URL:
        from apps.site.shared import RedisCounters, SharedCounters

        return SharedCounters(RedisCounters(settings.REDIS_URL))
    return MemoryCounters()


class Rulebook:
    """The limits that hold now, in memory, by rate scope.

    Looked at anew every `settings.LIMITS_LOOK` seconds, and at once after a change in this
    process; read anew when their version has changed.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.limits: Mapping[str, Limit] = {}
        self.version: int | None = None
        self.look_at = 0.0
        self.failed_at = 0.0
        self.changes = 0

    def now(self) -> Mapping[str, Limit]:
        """Limits by scope; `user:<username>` in lower case. Empty while they are switched off.

        Requests that wait for a look fail with it, instead of waiting for the database in turn.
        """
        moment = time.monotonic()
        if moment < self.look_at:
            return self.limits
        with self.lock:
            if moment < self.failed_at:
                raise unavailable()
            if moment >= self.look_at:
                changes = self.changes
                try:
                    self._look()
                except OperationalError:
                    self.failed_at = time.monotonic()
                    raise
                if changes == self.changes:
                    self.look_at = moment + settings.LIMITS_LOOK
            return self.limits

    def forget(self) -> None:
        """Look again at the next request."""
        self.changes += 1
        self.version = None
        self.look_at = 0.0

    def _look(self) -> None:
        """One small query; a second one when something has changed."""
        row = SiteSettings.objects.filter(pk=SiteSettings.ONLY)
        found = row.values_list("rate_limits_enabled", "limits_version").first()
        enabled, version = found or (True, None)
        if not enabled:
            self.limits, self.version = {}, None
        elif version is None or version != self.version:
            self.limits, self.version = read_limits(), version


def read_limits() -> dict[str, Limit]:
    rows = RateLimit.objects.filter(is_enabled=True)
    found = rows.values_list("scope", "max_requests", "window_seconds")
    return {
        scope.lower() if scope.startswith(USER) else scope: Limit(scope, most, seconds * 1000)
        for scope, most, seconds in found
    }


rulebook = Rulebook()


def changed() -> None:
    """Tell all processes that limits have changed: this one now, the others at their next look.

    Called inside the transaction of the change. Once more after it, because another thread may
    have read the old state until then.
    """
    SiteSettings.load()
    row = SiteSettings.objects.filter(pk=SiteSettings.ONLY)
    row.update(limits_version=F("limits_version") + 1)
    rulebook.forget()
    transaction.on_commit(rulebook.forget)


@dataclass(frozen=True)
class LimitState:
    """How a request stands with its tightest limit; what the headers say."""

    limit: Limit
    count: Count
    now: int

    @property
    def wait(self) -> int:
        """Whole seconds until there is room for one more; 0 for at once."""
        return -(-self.count.wait(self.limit) // 1000)

    @property
    def reset(self) -> int:
        """When this window ends, in seconds since 1970; later where even then there is no room."""
        end = self.now - self.count.elapsed + self.limit.window
        return -(-max(end, self.now + self.count.wait(self.limit)) // 1000)

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit.most),
            "X-RateLimit-Remaining": str(self.count.left(self.limit)),
            "X-RateLimit-Reset": str(self.reset),
            "X-RateLimit-Resource": self.limit.rate_scope,
        }


def throttle(
    request: HttpRequest, rate_scopes: Iterable[str], *, user: Person | None = None
) -> None:
    """Count a request in each of `rate_scopes` that has a limit.

    By user where one is given, else by address. Raises `TooMany` when one of them is used up,
    and then counts it nowhere. `request.answer_headers` has the headers either way.
    """
    limits = rulebook.now()
    found = [limits[one] for one in dict.fromkeys(rate_scopes) if one in limits] if limits else []
    if not found:
        return
    who = str(user.pk) if user else address_of(request.META, settings.TRUSTED_PROXIES)
    asked = [(f"{limit.rate_scope}:{limit.window}:{who}", limit) for limit in found]
    hit = counters().hit(asked)
    states = [
        LimitState(limit, count, hit.now) for limit, count in zip(found, hit.counts, strict=True)
    ]
    if hit.admitted:
        state = min(states, key=lambda one: (one.count.left(one.limit), -one.reset))
    else:
        state = max(states, key=lambda one: one.count.wait(one.limit))
    cast("SiteRequest", request).answer_headers = state.headers()
    if not hit.admitted:
        raise refusal(state)


def refusal(state: LimitState) -> TooMany:
    """429, with `Retry-After` in seconds."""
    limit = state.limit
    return TooMany(
        "rate_limited",
        f"The limit of {limit.most} requests in {limit.window // 1000} s for {limit.rate_scope} is "
        f"used up. Try again in {state.wait} s.",
        headers={**state.headers(), "Retry-After": str(max(1, state.wait))},
    )


def throttle_account(username: str, browser: str) -> None:
    """Count a try to sign in to this account, wherever it comes from, after `throttle_page`; 429.

    As many as come from one address, in a window `ACCOUNT_WINDOWS` times as long: somebody with
    many addresses would have as many tries. `browser`: one that the account knows, which has tries
    of its own; "" for all others together.
    """
    of_address = rulebook.now().get(RateScope.LOGIN)
    if of_address is None:
        return
    limit = of_address._replace(window=of_address.window * ACCOUNT_WINDOWS)
    key = f"{limit.rate_scope}:{limit.window}:{username.lower()}:{browser}"
    hit = counters().hit([(key, limit)])
    if hit.admitted:
        return
    wait = LimitState(limit, hit.counts[0], hit.now).wait
    raise TooMany(
        "rate_limited",
        f"Too many sign-in attempts for this account. Try again in {wait} s, or in a browser where "
        "you have signed in before. Resetting your password by e-mail lets you in at once.",
        headers={"Retry-After": str(max(1, wait))},
    )


def admits_mail(recipient: str) -> bool:
    """Count a message to this address, whoever asks for it; whether there is room for it."""
    key = f"{MOST_MAIL.rate_scope}:{MOST_MAIL.window}:{mailbox(recipient)}"
    return counters().hit([(key, MOST_MAIL)]).admitted


def mailbox(address: str) -> str:
    """One text for all addresses that lead to one mailbox nearly everywhere.

    Ignores case, what follows a `+`, quotes, and letters of which a domain makes ASCII.
    """
    try:
        parsed = Address(addr_spec=address)
        name, host = parsed.username, parsed.domain.encode("idna").decode()
    except (ValueError, IndexError, MessageError):  # no address, and nobody's
        return address.lower()
    return f"{name.partition('+')[0]}@{host}".lower()


def personal(user: Person | None) -> str:
    """The rate scope of who asks: `user:<username>` where it has a limit, else what it replaces."""
    if user is None:
        return RateScope.ANONYMOUS
    own = USER + user.username_key
    return own if own in rulebook.now() else RateScope.AUTHENTICATED


def throttle_git(request: HttpRequest, user: Person | None) -> None:
    """Count a request of git's; 429, which git prints."""
    throttle(request, [RateScope.GIT, personal(user)], user=user)


def throttle_page(request: HttpRequest, rate_scope: str, user: Person | None = None) -> None:
    """Count a form before anything of it is read: a try to sign in (`LOGIN`) or up (`SIGNUP`) for
    its address, what a person does in what the same counts in over the API: its tag, and writing.

    Raises `TooMany`: answer 429 with its `detail` and `headers`.
    """
    if rate_scope in BY_ADDRESS:
        throttle(request, [rate_scope])
    elif user is not None:
        throttle(request, [personal(user), rate_scope, RateScope.WRITE], user=user)


def throttle_reading(request: HttpRequest) -> None:
    """Count a page that somebody reads who is not signed in, together with what they ask of the
    API; 429.
    """
    throttle(request, [RateScope.ANONYMOUS])


def usage() -> dict[str, Usage]:
    """What is counted now, by rate scope, for people to look at: an address, or a user's id.

    Without Redis that is what this process has counted.
    """
    by_key = {f"{limit.rate_scope}:{limit.window}": limit for limit in rulebook.now().values()}
    found = {limit.rate_scope: Usage() for limit in by_key.values()}
    now, kept = counters().all_kept()
    for key, state in kept:
        parts = key.split(":", 3 if key.startswith(USER) else 2)
        limit = by_key.get(":".join(parts[:-1]))
        if limit is None:
            continue
        used, of = limit.most - count_at(now, limit, state).left(limit), found[limit.rate_scope]
        if used > 0:
            of.callers += 1
        if used > of.most:
            of.busiest, of.most = parts[-1], used
    return found


class RecordedThrottle(BaseThrottle):
    """Counts a request in every rate limit that staff has recorded for it; 429.

    Refuses by itself with our error, which has the headers; DRF's would lose them. Staff is never
    locked out of the limits themselves.
    """

    def allow_request(self, request: Any, view: Any) -> bool:
        user = request.user if request.user.is_authenticated else None
        if user is not None and user.is_staff and view.unlimited_for_staff:
            return True
        rate_scopes = [RateScope.API, personal(user), *view.schema_tags, *view.rate_scopes]
        if view.is_writing:
            rate_scopes.append(RateScope.WRITE)
        throttle(view.http_request, rate_scopes, user=user)
        return True
