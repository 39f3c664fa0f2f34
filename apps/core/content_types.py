"""Content types, detected by the first bytes of a file."""

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
"""Types that a browser may show inline, because they contain no code."""
PIECE = 65536


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
