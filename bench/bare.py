"""Django with one view and no middleware, for the comparisons in bench/api.py and bench/serve.py.

    python -m bench.bare 3

serves it like `bin/serve`, by the project's server, on the listening socket with this number.
"""

import asyncio
import os
import socket
import sys
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path


def answer(_: HttpRequest) -> HttpResponse:
    return HttpResponse(b"{}", headers={"Content-Length": "2"})


urlpatterns = [path("", answer)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[], TRUSTED_PROXIES=0)
django.setup()
application = WSGIHandler()


def load_application() -> Any:
    """The view under the project's ASGI handler, without the project's settings."""
    from config.connections import accept_here
    from config.handler import Handler

    handler = Handler()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return await handler(scope, receive, send)
        for step in ("startup", "shutdown"):
            await receive()
            accept_here(asyncio.get_running_loop())
            await send({"type": f"lifespan.{step}.complete"})

    return application


def serve(descriptor: int) -> None:
    from config.server import Server, end_silent

    listening = socket.socket(fileno=descriptor)
    end_silent(listening)
    Server(listening, os.cpu_count() or 1, load_application).run()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
