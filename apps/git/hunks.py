"""The hunks of a patch, line by line."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEADER: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its LF; a CR before that stays.

    `sign` is a space for a line of both sides, `-` for one that went, `+` for one that came.
    `has_newline` is false for the last line of a file that ends without LF.
    """

    sign: str
    text: bytes
    has_newline: bool = True


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that changed, and those around them. Lines are counted from 1; a side without lines
    has count 0, and its start is the line after which the others come.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: bytes
    lines: tuple[Line, ...]


def parse_hunks(patch: bytes) -> list[Hunk]:
    """The hunks of one file, which begin with the first `@@`. `ValueError`: it has another form.

    A file that became something else, such as a link, has two: all of it goes, and all comes.
    """
    lines = deque(patch.split(b"\n"))
    if lines.pop():
        raise ValueError("a patch ends with a line")
    hunks = []
    while lines:
        header = lines.popleft()
        if not (found := _HEADER.fullmatch(header)):
            raise ValueError(f"no beginning of a hunk: {header[:80]!r}")
        old_start, old_count, new_start, new_count = (
            1 if number is None else int(number) for number in found.groups()[:4]
        )
        body = tuple(_body(lines, old_count, new_count))
        hunks.append(Hunk(old_start, old_count, new_start, new_count, found[5], body))
    return hunks


def _body(lines: deque[bytes], old: int, new: int) -> Iterator[Line]:
    """The lines of a hunk, of which so many are in the old file, and so many in the new one."""
    while old > 0 or new > 0:
        line = lines.popleft() if lines else b""
        sign, text = line[:1].decode("latin-1"), line[1:]
        if sign not in {" ", "+", "-"}:
            raise ValueError(f"no line of a hunk: {line[:80]!r}")
        old -= sign != "+"
        new -= sign != "-"
        is_last = bool(lines) and lines[0].startswith(b"\\")
        if is_last:
            lines.popleft()
        yield Line(sign, text, has_newline=not is_last)
