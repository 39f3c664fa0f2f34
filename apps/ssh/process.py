"""The process that serves git over SSH. Only its functions import asyncssh and cryptography."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

from django.conf import settings

BACKLOG = 1024
Ready = Callable[[socket.socket], object]


def listen() -> socket.socket | None:
    """A socket at `SSH_ADDRESS`; None without one. `OSError`."""
    if settings.SSH_ADDRESS is None:
        return None
    host, port = settings.SSH_ADDRESS
    is_ipv6 = ":" in host
    return socket.create_server(
        (host, port),
        family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
        backlog=BACKLOG,
        dualstack_ipv6=is_ipv6,
    )


def fingerprints() -> list[str]:
    """A line for each host key, which is made if it is missing."""
    from apps.ssh.host_keys import fingerprint_of_file, host_keys

    paths = host_keys(settings.DATA_DIR)
    return [f"    host key  {fingerprint_of_file(path)}  {path.name}" for path in paths]


def run(listening: socket.socket, *, on_ready: Ready, ends_with: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM. Running commands have `GRACEFUL_TIMEOUT` seconds to end.

    `on_ready` is called with the socket. `ends_with`: a file descriptor of a pipe, at whose end the
    server ends too.
    """
    from apps.ssh.host_keys import host_keys
    from apps.ssh.server import serve

    keys = host_keys(settings.DATA_DIR)

    async def main() -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        if ends_with is not None:
            loop.add_reader(ends_with, stopping.set)
        on_ready(listening)
        grace = 0 if ends_with is not None else settings.GRACEFUL_TIMEOUT
        await serve([listening], keys, stopping=stopping, grace=grace)

    asyncio.run(main())
