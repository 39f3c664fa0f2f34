"""From which address a request came, as far as it can be known."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address

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
