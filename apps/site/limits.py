"""Rate limits for requests of the API, git, the stream and the pages.

docs/rate-limits.md describes which request counts for which limit; counters.py counts.
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
from apps.core.workers import workers
from apps.site.counters import (
    Count,
    Limit,
    MemoryCounters,
    Usage,
    count_at,
    process_counters,
)
from apps.site.kinds import USER, RateScope
from apps.site.models import RateLimit, SiteSettings

MAIL_LIMIT = Limit("mail", 5, 3600 * 1000)
"""Messages to one address in an hour. Staff cannot change it: the recipient may be a stranger."""

CODE_LIMIT = Limit("code", 20, 86400 * 1000)
"""Codes of a second factor for one account in a day. Staff cannot change it: a code has six digits,
of which three are valid at a time.
"""

BY_ADDRESS = (RateScope.LOGIN, RateScope.SIGNUP)
"""Rate scopes that are always counted by address, even for a signed-in person."""

ACCOUNT_WINDOWS = 15
"""Length of the window for sign-in attempts of one account, in windows of the limit `login`."""


@cache
def counters() -> MemoryCounters:
    """The counters: in Redis if there is one, else in the memory of this server's processes."""
    if settings.REDIS_URL:
        from apps.site.shared import RedisCounters, SharedCounters

        return SharedCounters(RedisCounters(settings.REDIS_URL))
    return process_counters()


class LimitCache:
    """Caches the limits in force by rate scope.

    It checks the version of the limits every `settings.LIMITS_LOOK` seconds, and at once after a
    change in a process of this server. If the version has changed, it reads the limits.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.limits: Mapping[str, Limit] = {}
        self.version: int | None = None
        self.check_at = 0.0
        self.failed_at = 0.0
        self.changes = 0
        """The number of changes before the last check."""

    def get(self) -> Mapping[str, Limit]:
        """Limits by scope, with `user:<username>` in lower case. Empty while they are switched off.

        If a check fails, requests that waited for it fail too, instead of waiting for the database
        one after the other.
        """
        now = time.monotonic()
        if now < self.check_at and self.changes == workers.limit_changes[0]:
            return self.limits
        with self.lock:
            if now < self.failed_at:
                raise unavailable()
            changes = workers.limit_changes[0]
            if changes != self.changes:
                self.version, self.check_at = None, 0.0
            if now >= self.check_at:
                try:
                    self._check()
                except OperationalError:
                    self.failed_at = time.monotonic()
                    raise
                self.changes, self.check_at = changes, now + settings.LIMITS_LOOK
            return self.limits

    def invalidate(self) -> None:
        """Read the limits again at the next request, in all processes of this server."""
        workers.limit_changes[0] += 1

    def _check(self) -> None:
        """One small query, and a second one if something has changed."""
        row = SiteSettings.objects.filter(pk=SiteSettings.ONLY)
        values = row.values_list("rate_limits_enabled", "limits_version").first()
        enabled, version = values or (True, None)
        if not enabled:
            self.limits, self.version = {}, None
        elif version is None or version != self.version:
            self.limits, self.version = read_limits(), version


def read_limits() -> dict[str, Limit]:
    enabled = RateLimit.objects.filter(is_enabled=True)
    rows = enabled.values_list("scope", "max_requests", "window_seconds")
    return {
        scope.lower() if scope.startswith(USER) else scope: Limit(scope, most, seconds * 1000)
        for scope, most, seconds in rows
    }


limit_cache = LimitCache()


def changed() -> None:
    """Invalidate the caches of all processes: of this one now, of others at their next check.

    Call it inside the transaction of the change. This cache is invalidated again after it, because
    another thread may have read the old limits until then.
    """
    SiteSettings.load()
    row = SiteSettings.objects.filter(pk=SiteSettings.ONLY)
    row.update(limits_version=F("limits_version") + 1)
    limit_cache.invalidate()
    transaction.on_commit(limit_cache.invalidate)


@dataclass(frozen=True)
class LimitState:
    """The state of a request's tightest limit, for the headers."""

    limit: Limit
    count: Count
    now: int

    @property
    def wait(self) -> int:
        """Whole seconds until one more request is allowed; 0 for now."""
        return -(-self.count.wait(self.limit) // 1000)

    @property
    def reset(self) -> int:
        """End of this window in seconds since 1970; later if even then there is no room."""
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

    Counts by user if given, else by address. If one of the limits is exceeded, raises `TooMany` and
    counts nothing. `request.answer_headers` gets the headers in any case.
    """
    caller = str(user.pk) if user else address_of(request.META, settings.TRUSTED_PROXIES)
    state, error = _count(rate_scopes, caller)
    if state is not None:
        cast("SiteRequest", request).answer_headers = state.headers()
    if error is not None:
        raise error


def throttle_ssh(user: Person | None, caller: str) -> None:
    """Count a command of git over SSH; 429. `caller`: the key of the count, that of the person over
    HTTP, or one of a deploy key, which has no `user`.
    """
    scope = personal_scope(user) if user else RateScope.AUTHENTICATED
    _, error = _count([RateScope.GIT, scope], caller)
    if error is not None:
        raise error


def wait_after_wrong_keys(address: str) -> int:
    """Count a connection without a valid SSH key from this address; return the seconds for which
    the address has to wait if it has had too many, else 0.

    The limit is that of the sign-in page, but counted separately: a program that repeats a wrong
    key must not keep people at the same address from signing in.
    """
    login = limit_cache.get().get(RateScope.LOGIN)
    if login is None:
        return 0
    hit = counters().hit([(f"ssh:{login.window}:{address}", login)])
    return 0 if hit.admitted else max(1, LimitState(login, hit.counts[0], hit.now).wait)


def _count(rate_scopes: Iterable[str], caller: str) -> tuple[LimitState | None, TooMany | None]:
    """Count a request in those of these scopes that have a limit; the tightest one, and the refusal
    if one is exceeded.
    """
    cached = limit_cache.get()
    limits = [cached[scope] for scope in dict.fromkeys(rate_scopes) if scope in cached]
    if not limits:
        return None, None
    keys = [(f"{limit.rate_scope}:{limit.window}:{caller}", limit) for limit in limits]
    hit = counters().hit(keys)
    states = [
        LimitState(limit, count, hit.now) for limit, count in zip(limits, hit.counts, strict=True)
    ]
    if hit.admitted:
        return min(states, key=lambda one: (one.count.left(one.limit), -one.reset)), None
    state = max(states, key=lambda one: one.count.wait(one.limit))
    return state, refusal(state)


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
    """Count a sign-in attempt for this account from any address, after `throttle_page`; 429.

    The limit is the number for one address in a window `ACCOUNT_WINDOWS` times as long: somebody
    with many addresses would have many times as many attempts. `browser` is one that the account
    has used before, which is counted separately; "" for all others together.
    """
    login = limit_cache.get().get(RateScope.LOGIN)
    if login is None:
        return
    limit = login._replace(window=login.window * ACCOUNT_WINDOWS)
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


def throttle_code(user: Person, browser: str) -> None:
    """Count a code of a second factor for this account from any address, after `throttle_page`;
    429. `browser` as in `throttle_account`: it is counted separately.
    """
    key = f"{CODE_LIMIT.rate_scope}:{CODE_LIMIT.window}:{user.pk}:{browser}"
    hit = counters().hit([(key, CODE_LIMIT)])
    if hit.admitted:
        return
    wait = LimitState(CODE_LIMIT, hit.counts[0], hit.now).wait
    raise TooMany(
        "rate_limited",
        "Too many codes were tried for this account. Try again later, or in a browser where you "
        "have signed in before. The staff of the site can reset your second factor.",
        headers={"Retry-After": str(max(1, wait))},
    )


def admits_mail(recipient: str) -> bool:
    """Count a message to this address, and return whether it is allowed."""
    key = f"{MAIL_LIMIT.rate_scope}:{MAIL_LIMIT.window}:{mailbox(recipient)}"
    return counters().hit([(key, MAIL_LIMIT)]).admitted


def mailbox(address: str) -> str:
    """The same text for all addresses of one mailbox at most providers.

    Ignores case, everything behind a `+`, quotes, and the Unicode form of a domain.
    """
    try:
        parsed = Address(addr_spec=address)
        name, host = parsed.username, parsed.domain.encode("idna").decode()
    except (ValueError, IndexError, MessageError):  # not an address
        return address.lower()
    return f"{name.partition('+')[0]}@{host}".lower()


def personal_scope(user: Person | None) -> str:
    """`user:<username>` if it has a limit, else `authenticated`; `anonymous` without a user."""
    if user is None:
        return RateScope.ANONYMOUS
    scope = USER + user.username_key
    return scope if scope in limit_cache.get() else RateScope.AUTHENTICATED


def throttle_git(request: HttpRequest, user: Person | None) -> None:
    """Count a request of git; 429, which git prints."""
    throttle(request, [RateScope.GIT, personal_scope(user)], user=user)


def throttle_page(request: HttpRequest, rate_scope: str, user: Person | None = None) -> None:
    """Count a form before it is read. A sign-in (`LOGIN`) or sign-up (`SIGNUP`) counts by address;
    other forms count by person, in the rate scopes of the same write over the API.

    Raises `TooMany`: answer 429 with its `detail` and `headers`.
    """
    if rate_scope in BY_ADDRESS:
        throttle(request, [rate_scope])
    elif user is not None:
        throttle(request, [personal_scope(user), rate_scope, RateScope.WRITE], user=user)


def throttle_reading(request: HttpRequest) -> None:
    """Count a page read without sign-in, together with requests to the API; 429."""
    throttle(request, [RateScope.ANONYMOUS])


def usage() -> dict[str, Usage]:
    """Current usage by rate scope, for the admin. Without Redis it is that of this server."""
    by_key = {f"{limit.rate_scope}:{limit.window}": limit for limit in limit_cache.get().values()}
    usages = {limit.rate_scope: Usage() for limit in by_key.values()}
    now, states = counters().all_states()
    for key, state in states:
        parts = key.split(":", 3 if key.startswith(USER) else 2)
        limit = by_key.get(":".join(parts[:-1]))
        if limit is None:
            continue
        requests = limit.most - count_at(now, limit, state).left(limit)
        usage = usages[limit.rate_scope]
        if requests > 0:
            usage.callers += 1
        if requests > usage.requests:
            usage.busiest, usage.requests = parts[-1], requests
    return usages


class RecordedThrottle(BaseThrottle):
    """Counts a request in each of its rate limits; 429.

    It raises our error, which has the headers; DRF's has none. Staff always has access to the rate
    limits themselves.
    """

    def allow_request(self, request: Any, view: Any) -> bool:
        user = request.user if request.user.is_authenticated else None
        if user is not None and user.is_staff and view.unlimited_for_staff:
            return True
        rate_scopes = [RateScope.API, personal_scope(user), *view.schema_tags, *view.rate_scopes]
        if view.is_writing:
            rate_scopes.append(RateScope.WRITE)
        throttle(view.http_request, rate_scopes, user=user)
        return True
