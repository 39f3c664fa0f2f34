"""The ASGI application: API, git, admin and the live stream."""

import asyncio
import gc
import os
import signal
from contextlib import suppress
from typing import Any

import django
from channels.routing import ProtocolTypeRouter, URLRouter

from config.bodies import Receive
from config.connections import end_idle
from config.handler import Handler, Send

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

# What follows has models below it, which need Django to be set up.
from django.urls import path, re_path  # noqa: E402

from apps.events.consumers import EventStreamConsumer  # noqa: E402
from apps.events.hub import hub  # noqa: E402
from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import warn_at_start  # noqa: E402


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answer the server's start, before which it does not listen, and its end; daphne tells of
    neither.

    A server may wait for open streams before it tells of its end, so its signal is heard as well.
    """
    await receive()
    end_idle(asyncio.get_running_loop())
    close_streams_on_sigterm()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def close_streams_on_sigterm() -> None:
    """Let the hub end the streams; then the handler that was there before is called as well."""
    loop = asyncio.get_running_loop()
    previous = signal.getsignal(signal.SIGTERM)
    if not callable(previous):
        return

    def handle(number: int, frame: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed already
            loop.call_soon_threadsafe(hub.close)
        previous(number, frame)

    signal.signal(signal.SIGTERM, handle)


async def refuse_websocket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """There are none here: the handshake is answered with 403."""
    await send({"type": "websocket.close"})


handler = Handler()
stream: Any = EventStreamConsumer.as_asgi(handler=handler)
everything: Any = handler
routes: list[Any] = [path("api/v1/tail-events", stream), re_path("", everything)]
application: Any = ProtocolTypeRouter(
    {"http": URLRouter(routes), "lifespan": lifespan, "websocket": refuse_websocket}
)
start_if_wanted()
warn_at_start()
# Each stream is many objects, so that the collector comes often. What is loaded now stays anyway.
gc.freeze()
