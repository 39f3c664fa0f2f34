"""The rows of a file's changes: git's hunks with colours and marks, and hidden lines between them
that a reader has opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from apps.git.diff import Hunk, parse_hunks
from apps.git.diff import Line as HunkLine
from apps.web.colours import LINE_MAX, Line, escaped, html_of, plain_lines, text_of

Row = tuple[str, int | None, int | None, str]
"""A sign of git's, the line numbers in the old and in the new file, and the line as HTML. The sign
`@` begins a hunk; a backslash says that the line before has no line feed. The last row has the sign
`$` and the number of lines of each file, None if that is not known.
"""
VERSION = 5
"""Part of the cache key: raise it when the rows change."""
CHANGED_MAX = 0.7
"""The largest share of a line that is marked; if more has changed, marks do not help."""
WORD = re.compile(r"\w")
Marks = tuple[tuple[int, int] | None, tuple[int, int] | None]


def rows_of(patch: bytes, old: Sequence[Line], new: Sequence[Line]) -> list[Row]:
    """The rows of a file's patch. `old` and `new`: its coloured lines, empty for no colours."""
    rows: list[Row] = []
    for hunk in parse_hunks(patch):
        heading = escaped(hunk.heading.decode("utf-8", "replace"))
        rows.append(("@", hunk.old_start, hunk.new_start, heading))
        rows += hunk_rows(hunk, old, new)
    return rows


def hunk_rows(hunk: Hunk, old: Sequence[Line], new: Sequence[Line]) -> Iterator[Row]:
    """The rows of a hunk, with marks where a removed and an added line differ."""
    before, after = hunk.old_start, hunk.new_start
    for is_same, group in groupby(hunk.lines, key=lambda line: line.sign == " "):
        lines = list(group)
        if is_same:
            for line in lines:
                yield " ", before, after, html_of(coloured(line, new, after))
                yield from no_newline_row(line)
                before, after = before + 1, after + 1
            continue
        removed = [line for line in lines if line.sign == "-"]
        added = [line for line in lines if line.sign == "+"]
        left = [coloured(line, old, before + at) for at, line in enumerate(removed)]
        right = [coloured(line, new, after + at) for at, line in enumerate(added)]
        marks = [marks_of(*pair) for pair in zip(left, right, strict=False)]
        for at, (line, text) in enumerate(zip(removed, left, strict=True)):
            yield "-", before + at, None, html_of(text, marks[at][0] if at < len(marks) else None)
            yield from no_newline_row(line)
        for at, (line, text) in enumerate(zip(added, right, strict=True)):
            yield "+", None, after + at, html_of(text, marks[at][1] if at < len(marks) else None)
            yield from no_newline_row(line)
        before, after = before + len(removed), after + len(added)


def no_newline_row(line: HunkLine) -> Iterator[Row]:
    if not line.has_newline:
        yield "\\", None, None, "No line end at the end of the file"


def coloured(line: HunkLine, lines: Sequence[Line], number: int) -> Line:
    """The coloured line of the file if its text is the same, else the plain line."""
    text = line.text.decode("utf-8", "replace")
    if number <= len(lines) and text_of(lines[number - 1]) == text:
        return lines[number - 1]
    return next(iter(plain_lines(text)), [])


def marks_of(old: Line, new: Line) -> Marks:
    """The part of each of two lines that is not in the other, in whole words. Lines that are equal,
    have little in common, or are very long get no marks: the search is quadratic.
    """
    before, after = text_of(old), text_of(new)
    longer = max(len(before), len(after))
    if longer > LINE_MAX:
        return None, None
    start = common_length(before, after)
    end = common_length(before[start:][::-1], after[start:][::-1])
    while start and WORD.match(before[start - 1]) and in_word(before, after, start):
        start -= 1
    while end and WORD.match(before[-end]) and in_word(before[::-1], after[::-1], end):
        end -= 1
    if not 0 < (longer - end - start) / max(1, longer) <= CHANGED_MAX:
        return None, None
    stops = len(before) - end, len(after) - end
    old_mark, new_mark = ((start, stop) if start < stop else None for stop in stops)
    return old_mark, new_mark


def common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def in_word(one: str, other: str, at: int) -> bool:
    """Whether a word continues at this index in either text."""
    return any(WORD.match(text[at : at + 1]) for text in (one, other))


@dataclass(frozen=True)
class Gap:
    """Unchanged lines that are not shown, by their numbers in the new file. `shift` is added for
    those in the old file. `heading` is that of the hunk below, as HTML.
    """

    first: int
    last: int
    shift: int
    heading: str = ""
    is_above: bool = True
    """Whether a hunk follows; if not, the gap is at the end of the file."""

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)


Item = Row | Gap
Range = tuple[int, int]
"""The first and the last line."""


def with_gaps(rows: Sequence[Row]) -> Iterator[Item]:
    """The rows of a file, with a gap in place of each beginning of a hunk and of the last row. A
    gap may be empty.
    """
    old_next = new_next = 1
    for row in rows:
        sign, old, new, text = row
        if sign == "@":
            old_start, new_start = old or 0, new or 0
            # A side without lines begins at the line before.
            first, last = new_next, (new_start or old_start) - 1
            yield Gap(first, last if new_start else first - 1, old_next - new_next, text)
            old_next, new_next = max(1, old_start), max(1, new_start)
        elif sign == "$":
            if new is not None and old is not None:
                yield Gap(new_next, new, old_next - new_next, is_above=False)
        else:
            yield row
            old_next += sign in " -"
            new_next += sign in " +"


def opened(items: Iterable[Item], ranges: Sequence[Range], lines: Sequence[Line]) -> Iterator[Item]:
    """The rows with the lines of these ranges in place of the gaps that have them. `lines`: all
    lines of the new file.
    """
    for item in items:
        if not isinstance(item, Gap) or not len(item):
            yield item
            continue
        at = item.first
        for first, last in visible_parts(item, ranges):
            if at < first:
                yield Gap(at, first - 1, item.shift)
            for number in range(first, min(last, len(lines)) + 1):
                yield " ", number + item.shift, number, html_of(lines[number - 1])
            at = last + 1
        if at <= item.last:
            yield Gap(at, item.last, item.shift, item.heading, item.is_above)


def visible_parts(gap: Gap, ranges: Sequence[Range]) -> list[Range]:
    """The parts of a gap that are in one of the ranges, in order, without overlaps."""
    parts: list[Range] = []
    for first, last in sorted(ranges):
        first, last = max(first, gap.first), min(last, gap.last)
        if first > last:
            continue
        if parts and first <= parts[-1][1] + 1:
            parts[-1] = parts[-1][0], max(last, parts[-1][1])
        else:
            parts.append((first, last))
    return parts
