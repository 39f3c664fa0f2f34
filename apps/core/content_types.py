"""Content types by the first bytes of a file."""

from __future__ import annotations

import codecs
import re

PICTURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    "image/avif": re.compile(rb"....ftypavi[fs]", re.DOTALL),
}
"""Types that a browser may show by itself, because none of them can run anything."""
PIECE = 65536


def picture_type(start: bytes) -> str | None:
    """The type of a picture; None for anything else."""
    return next((kind for kind, begin in PICTURES.items() if begin.match(start)), None)


def is_text(content: bytes, *, is_whole: bool = True) -> bool:
    """Whether this is UTF-8 without NUL. Unless it is whole, the last character may be cut off.

    It is decoded in pieces: decoded at once, a large file may take four times its size.
    """
    reader = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), PIECE):
            reader.decode(content[start : start + PIECE])
        reader.decode(b"", final=is_whole)
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
