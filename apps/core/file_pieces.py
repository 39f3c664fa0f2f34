"""An open file as the content of an answer, under WSGI and ASGI alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import IO
from wsgiref.util import FileWrapper

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

PIECE = 65536


class AsyncPieces:
    """A file for an ASGI server: Django would read all of a synchronous one before it sends any."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self.file.read, PIECE):
            yield piece

    def close(self) -> None:
        """Called at the end of the answer."""
        self.file.close()


def pieces_of(file: IO[bytes], request: HttpRequest) -> AsyncPieces | FileWrapper:
    """The file from where it is, for a `StreamingHttpResponse`, which closes it."""
    is_async = isinstance(request, ASGIRequest)
    return AsyncPieces(file) if is_async else FileWrapper(file, PIECE)
