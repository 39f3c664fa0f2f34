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
from config.connections import accept_here

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

# The modules below import models, for which Django must be set up.
from django.urls import path, re_path  # noqa: E402

from apps.events.consumers import EventStreamConsumer  # noqa: E402
from apps.events.hub import hub  # noqa: E402
from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import refusal_at_start, warn_at_start  # noqa: E402
from config.handler import Handler, Send  # noqa: E402
from config.health import Application, before_end, drain_at_end  # noqa: E402


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Handle startup and shutdown of the server; daphne sends neither.

    A server may wait for open streams before it sends its shutdown. Its signal closes them.
    """
    await receive()
    if refusal := await asyncio.to_thread(refusal_at_start):
        await send({"type": "lifespan.startup.failed", "message": refusal})
        return
    accept_here(asyncio.get_running_loop())
    close_streams_on_sigterm()
    drain_at_end()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def close_streams_on_sigterm() -> None:
    """On SIGTERM let the hub close the streams, and then call the previous handler."""
    loop = asyncio.get_running_loop()

    def close() -> None:
        with suppress(RuntimeError):  # the loop has been closed already
            loop.call_soon_threadsafe(hub.close)

    before_end(close, signal.SIGTERM)


async def refuse_websocket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Refuse the handshake with 403: there are no websockets here."""
    await send({"type": "websocket.close"})


handler = Handler(Application())
stream: Any = EventStreamConsumer.as_asgi(handler=handler)
django_handler: Any = handler
routes: list[Any] = [path("api/v1/tail-events", stream), re_path("", django_handler)]
application: Any = ProtocolTypeRouter(
    {"http": URLRouter(routes), "lifespan": lifespan, "websocket": refuse_websocket}
)
start_if_wanted()
warn_at_start()
# Streams have many objects, and let the garbage collector run often. It need not visit the modules
# that are loaded by now.
gc.freeze()
