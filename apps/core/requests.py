"""Requests: attributes that are set on them, their sessions and client addresses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Protocol, cast

from django.http import HttpRequest
from django.utils import timezone

from apps.core.access import Person, Principal


class SiteRequest(HttpRequest):
    """A type for Django's requests with the attributes that this project sets."""

    id: str
    """Id of the request in the logs, set by `apps.core.request_log`."""
    principal: Principal
    """Set by `apps.accounts.authentication.session_principal`."""
    auth: Principal
    """Set by `@page`, for filters, which read it from a request of DRF."""
    answer_headers: dict[str, str]
    """Headers for the answer; missing until a step sets one."""


def set_answer_header(request: HttpRequest, name: str, value: str) -> None:
    """Set a header of the answer; headers of other steps stay."""
    site_request = cast("SiteRequest", request)
    headers = getattr(site_request, "answer_headers", {})
    site_request.answer_headers = {**headers, name: value}


class VisitedSession(Protocol):
    """The part of `apps.accounts.sessions.SessionStore` that `prolong` uses."""

    def get(self, key: str) -> Any: ...
    def __setitem__(self, key: str, value: Any) -> None: ...
    def note_visit(self, user: Any, request: HttpRequest) -> None: ...


DAY = "day"
"""Key of a session for the day on which it was last prolonged."""


def prolong(request: HttpRequest, user: Person) -> None:
    """Let the session expire in `SESSION_COOKIE_AGE` from today, and store the visit of the person.

    The first writes once a day, the second once an hour (`apps.accounts.sessions`).
    """
    session, today = cast("VisitedSession", request.session), timezone.now().date().toordinal()
    if session.get(DAY) != today:
        session[DAY] = today
    session.note_visit(user, request)


UNDER_ASGI = "guildhall.under_asgi"
"""Key of `request.META` under ASGI, where streams have an event loop, and a thread is added for a
request that waits.
"""
UNKNOWN = "unknown"


def address_of(meta: Mapping[str, str], trusted_proxies: int) -> str:
    """The client's IPv4 address, or the /64 of its IPv6 address.

    Only the entries of `X-Forwarded-For` that trusted proxies wrote count: for n of them, the n-th
    from the right. If that is not an address, the result is the address of the connection.
    """
    connected = meta.get("REMOTE_ADDR", "")
    forwarded = meta.get("HTTP_X_FORWARDED_FOR", "")
    if trusted_proxies and forwarded:
        entries = forwarded.rsplit(",", trusted_proxies)
        client = entries[-min(trusted_proxies, len(entries))]
        return network(client) or network(connected) or UNKNOWN
    return network(connected) or UNKNOWN


def network(text: str) -> str | None:
    """`192.0.2.7` or `2001:db8:1:2::/64`, without a port; None if it is not an address."""
    return _network(text.strip()[:100])


@lru_cache(maxsize=1024)
def _network(text: str) -> str | None:
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        if ":" not in text:
            return str(IPv4Address(text))
        ipv6 = IPv6Address(text.partition("%")[0])
    except AddressValueError:
        return None
    if ipv6.ipv4_mapped is not None:
        return str(ipv6.ipv4_mapped)
    return f"{IPv6Address(int(ipv6) >> 64 << 64)}/64"
