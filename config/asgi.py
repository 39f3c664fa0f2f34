"""The ASGI application: API, git, admin and the live stream."""

import gc
import os

import django

from config.handler import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)

from apps.events.stream import PATH, Receive, Scope, Send, close_on_sigterm, live  # noqa: E402
from apps.jobs.worker import start_if_wanted  # noqa: E402
from config.checks import warn_of_counting_apart  # noqa: E402

handler = Handler()
stream = live(handler)
warn_of_counting_apart()
# Each stream is many objects, so that the collector comes often. What is loaded now stays anyway.
gc.freeze()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Lead a request to the live stream or to Django, and answer the server's start and end."""
    start_if_wanted()
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close"})  # there are none here: the handshake is a 403
    elif scope["path"] == PATH and scope["method"] == "GET":
        await stream(scope, receive, send)
    else:
        await handler(scope, receive, send)


async def lifespan(receive: Receive, send: Send) -> None:
    """Servers with a lifespan may wait for open streams when they end, so these hear of it first.

    The embedded server has none: it drops them (config/embedded.py).
    """
    await receive()
    close_on_sigterm()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
