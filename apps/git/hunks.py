"""The hunks of a patch, line by line."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEADER: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its LF. A CR before the LF is part of `text`.

    `sign` is a space for a line of both sides, `-` for a removed line, `+` for an added line.
    `has_newline` is False for the last line of a file that does not end with LF.
    """

    sign: str
    text: bytes
    has_newline: bool = True


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines with their context. Lines are counted from 1. A side without lines has count 0,
    and its start is the line before the hunk.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: bytes
    lines: tuple[Line, ...]


def parse_hunks(patch: bytes) -> list[Hunk]:
    """Parse the patch of one file, from its first `@@`; `ValueError` if it is malformed.

    A file that became a symbolic link, or the reverse, has two hunks: all lines removed, all added.
    """
    lines = deque(patch.split(b"\n"))
    if lines.pop():
        raise ValueError("the patch does not end with a newline")
    hunks = []
    while lines:
        header = lines.popleft()
        if not (match := _HEADER.fullmatch(header)):
            raise ValueError(f"not a hunk header: {header[:80]!r}")
        old_start, old_count, new_start, new_count = (
            1 if number is None else int(number) for number in match.groups()[:4]
        )
        body = tuple(_body(lines, old_count, new_count))
        hunks.append(Hunk(old_start, old_count, new_start, new_count, match[5], body))
    return hunks


def _body(lines: deque[bytes], old: int, new: int) -> Iterator[Line]:
    """The lines of a hunk: `old` of them are in the old file, `new` in the new file."""
    while old > 0 or new > 0:
        line = lines.popleft() if lines else b""
        sign, text = line[:1].decode("latin-1"), line[1:]
        if sign not in {" ", "+", "-"}:
            raise ValueError(f"not a line of a hunk: {line[:80]!r}")
        old -= sign != "+"
        new -= sign != "-"
        is_last = bool(lines) and lines[0].startswith(b"\\")
        if is_last:
            lines.popleft()
        yield Line(sign, text, has_newline=not is_last)
