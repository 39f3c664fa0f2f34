"""The addresses that webhooks may send to: those of the public internet, and none of ours.

Names are never judged by their spelling. The sender looks a name up once, checks each address by
`is_allowed`, and connects to a checked one (`sending.py`).
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.core.views import site_url
from apps.webhooks.models import URL_MAX

PRINTABLE = re.compile(r"[\x21-\x7e]+")
HOST = re.compile(r"[0-9A-Za-z._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
PORTS = {"http": 80, "https": 443}
RELAY_IPV4 = IPv4Network("192.88.99.0/24")
PUBLIC_IPV6 = IPv6Network("2000::/3")
NOT_PUBLIC_IPV6 = (IPv6Network("2002::/16"), IPv6Network("3fff::/20"))
"""6to4, which contains an IPv4 address, and documentation."""


class Address(NamedTuple):
    """The parts of a URL that a request needs. `target`: path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def host_header(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def check_url(url: str) -> None:
    """422 `invalid_url` if a webhook may not have this URL."""
    if len(url) > URL_MAX:
        raise Invalid("invalid_url", f"A URL has at most {URL_MAX} characters.")
    try:
        address = address_of(url)
    except ValueError as error:
        raise Invalid("invalid_url", f"{quoted(url)}: {error}") from None
    if address.scheme == "http" and not settings.WEBHOOK_ALLOW_HTTP:
        text = "A URL begins with https://. The operator can allow http (WEBHOOK_ALLOW_HTTP)."
        raise Invalid("invalid_url", text)
    own = urlsplit(site_url())
    own_port = own.port or PORTS[own.scheme]
    if (address.host.rstrip("."), address.port) == (own.hostname, own_port):
        raise Invalid("invalid_url", "A webhook cannot call Guildhall itself.")


def address_of(url: str) -> Address:
    """The parts of a URL; `ValueError` with a text for people if it is not of this form."""
    if not PRINTABLE.fullmatch(url) or "\\" in url:
        raise ValueError("write it in ASCII, without spaces (xn--… for names, %… for paths).")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("this is no URL.") from None
    if parts.scheme not in PORTS or not HOST.fullmatch(parts.hostname or ""):
        raise ValueError("a URL is like https://ci.example.org/hook.")
    if "@" in parts.netloc or "#" in url:
        raise ValueError("a URL has neither a user nor a fragment.")
    if port == 0:
        raise ValueError("there is no port 0.")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme, parts.hostname or "", port or PORTS[parts.scheme], target)


def is_allowed(address: str) -> bool:
    """Whether a webhook may connect to this IP address, as the resolver returns it."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return _is_opened(ip) or _is_public(ip)


def _is_opened(ip: IPv4Address | IPv6Address) -> bool:
    """Whether the operator has opened a network with this address (WEBHOOK_ALLOWED_NETS)."""
    return any(ip in net for net in settings.WEBHOOK_ALLOWED_NETS)


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    # `is_global` alone is not enough: Python calls several forms of 127.0.0.1 in IPv6 global.
    if not ip.is_global or ip.is_multicast:
        return False
    if isinstance(ip, IPv4Address):
        return ip not in RELAY_IPV4
    return ip in PUBLIC_IPV6 and not any(ip in net for net in NOT_PUBLIC_IPV6)
