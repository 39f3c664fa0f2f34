"""Files in answers: their types and headers. Files in forms are refused."""

from __future__ import annotations

import codecs
import re
from typing import Any

from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.utils.http import content_disposition_header

from apps.core.conditional import CACHE_CONTROL

PIECE = 65536
PICTURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    "image/avif": re.compile(rb"....ftypavi[fs]", re.DOTALL),
}
"""Types that a browser may show inline, because they contain no code."""


def picture_type(start: bytes) -> str | None:
    """The content type of a picture; None if it is not one."""
    return next((kind for kind, magic in PICTURES.items() if magic.match(start)), None)


def is_text(content: bytes, *, is_whole: bool = True) -> bool:
    """Whether this is UTF-8 without NUL. If it is not whole, the last character may be incomplete.

    It is decoded in pieces: decoding a large file at once may take four times its size.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), PIECE):
            decoder.decode(content[start : start + PIECE])
        decoder.decode(b"", final=is_whole)
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


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
