"""The addresses of repositories over SSH."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from apps.core.views import site_url

PORT = 22


def ssh_url() -> str:
    """`ssh://git@code.example.org:2222`; "" if this site does not serve git over SSH.

    It is `SSH_URL`, else the host of the site with the port of `SSH_ADDRESS`.
    """
    if settings.SSH_ADDRESS is None:
        return ""
    if settings.SSH_URL:
        return str(settings.SSH_URL)
    host, port = urlsplit(site_url()).hostname or "localhost", settings.SSH_ADDRESS.port
    literal = f"[{host}]" if ":" in host else host
    return f"ssh://git@{literal}" if port == PORT else f"ssh://git@{literal}:{port}"


def clone_address(path: str) -> str:
    """The address of the repository at this path; "" without git over SSH."""
    url = ssh_url()
    return f"{url}/{path}.git" if url else ""
