"""Decodes the paths that git quotes in output without `-z`."""

import re
from typing import Final

_ESCAPED: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPES: Final = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
}


def unquoted(name: bytes) -> bytes:
    """The path itself. git quotes a path with unusual bytes like a string in C."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPED.sub(_unescaped, name[1:-1])


def _unescaped(escaped: re.Match[bytes]) -> bytes:
    text = escaped[1]
    return bytes([int(text, 8) & 0xFF]) if len(text) == 3 else _ESCAPES.get(text, text)
