"""Headers of stored files in answers. Files in forms are refused."""

from __future__ import annotations

from typing import Any

from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.utils.http import content_disposition_header

from apps.core.conditional import CACHE_CONTROL

PIECE = 65536


INERT = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": CACHE_CONTROL,
}
"""A browser that opens such content runs no script, loads nothing and guesses no other type."""


def inert_headers(
    content_type: str, filename: str = "", *, is_attachment: bool = False
) -> dict[str, str]:
    """`INERT`, the content type and, if there is a filename, a Content-Disposition."""
    disposition = content_disposition_header(is_attachment, filename)
    named = {"Content-Disposition": disposition} if disposition else {}
    return {"Content-Type": content_type, **INERT, **named}


class NoFiles(FileUploadHandler):
    """Stops reading a form at the first file, because no page accepts files: Django would write a
    file of any size to disk before it knows who sends it.
    """

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        raise StopUpload(connection_reset=True)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Never called."""

    def file_complete(self, file_size: int) -> None:
        """Never called."""
