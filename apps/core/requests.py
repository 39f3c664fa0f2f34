"""Requests: the attributes that we set on them, their sessions, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import cast

from django.http import HttpRequest
from django.utils import timezone

from apps.core.access import Principal


class SiteRequest(HttpRequest):
    """Types the attributes that this project adds to Django's requests, which Django makes."""

    id: str
    """Set by `apps.web.headers.page_headers`: the id by which the logs name the request."""
    principal: Principal
    """Set by `apps.accounts.middleware.session_principal`."""
    auth: Principal
    """Set by `@page`: filters read it from there, as from a request of DRF."""
    answer_headers: dict[str, str]
    """Headers that the answer gets; missing until a step sets one."""


def set_answer_header(request: HttpRequest, name: str, value: str) -> None:
    """Set a header of the answer, beside those that other steps have set."""
    site_request = cast("SiteRequest", request)
    headers = getattr(site_request, "answer_headers", {})
    site_request.answer_headers = {**headers, name: value}


DAY = "day"
"""Where a session notes the day on which it was last prolonged."""


def prolong(request: HttpRequest) -> None:
    """Let the session end 14 days from today; one write a day, not one for each page."""
    today = timezone.now().date().toordinal()
    if request.session.get(DAY) != today:
        request.session[DAY] = today


UNKNOWN = "unknown"


def address_of(meta: Mapping[str, str], trusted_proxies: int) -> str:
    """The client's IPv4 address, or the /64 of its IPv6 address.

    `X-Forwarded-For` counts only as far as proxies of ours wrote it: the n-th entry from the right
    for n of them. What is no address there is the nearest proxy's fault or a lie; then it is the
    address of whoever is connected.
    """
    connected = meta.get("REMOTE_ADDR", "")
    forwarded = meta.get("HTTP_X_FORWARDED_FOR", "")
    if trusted_proxies and forwarded:
        steps = forwarded.rsplit(",", trusted_proxies)
        named = steps[-min(trusted_proxies, len(steps))]
        return network(named) or network(connected) or UNKNOWN
    return network(connected) or UNKNOWN


def network(text: str) -> str | None:
    """`192.0.2.7`, `2001:db8:1:2::/64`; None for what is no address. A port is left aside."""
    text = text.strip()[:100]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        if ":" not in text:
            return str(IPv4Address(text))
        six = IPv6Address(text.partition("%")[0])
    except AddressValueError:
        return None
    if six.ipv4_mapped is not None:
        return str(six.ipv4_mapped)
    return f"{IPv6Address(int(six) >> 64 << 64)}/64"
