"""Paths as git writes them where it does not end them with NUL."""

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
    """A path as it is: git writes one with unusual bytes as C has its strings."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPED.sub(_meant, name[1:-1])


def _meant(escaped: re.Match[bytes]) -> bytes:
    text = escaped[1]
    return bytes([int(text, 8) & 0xFF]) if len(text) == 3 else _ESCAPES.get(text, text)
