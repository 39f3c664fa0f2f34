"""Diffs as rows, with colours and with marks inside lines; rows and files as HTML tables.

The tables are made by Python because a template is too slow for thousands of rows. `colours` has
escaped all text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from django.utils.safestring import SafeString, mark_safe

from apps.git.diff import Hunk, parse_hunks
from apps.git.diff import Line as HunkLine
from apps.web.colours import LINE_MAX, Line, escaped, html_of, plain_lines, text_of

Row = tuple[str, int | None, int | None, str]
"""A sign of git's, the line numbers in the old and in the new file, and the line as HTML. The sign
`@` begins a hunk; a backslash says that the line before has no line feed.
"""
Pair = tuple[Row | None, Row | None]
"""The rows of the old and of the new file that stand side by side."""
CHANGED_MAX = 0.7
"""The largest share of a line that is marked; if more has changed, marks do not help."""
WORD = re.compile(r"\w")
Marks = tuple[tuple[int, int] | None, tuple[int, int] | None]
CLASSES = {"+": " add", "-": " del", " ": ""}
UNIFIED_START = (
    '<table class="lines one"><colgroup><col class="n old"><col class="n"><col></colgroup><tbody>'
)
SPLIT_START = (
    '<table class="lines two"><colgroup><col class="n"><col><col class="n"><col></colgroup><tbody>'
)
FILE_START = '<table class="lines whole"><colgroup><col class="n"><col></colgroup><tbody>'
TABLE_END = "</tbody></table>"
NO_CELLS = '<td class="n void"></td><td class="void"></td>'


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
    if max(len(before), len(after)) > LINE_MAX:
        return None, None
    start = common_length(before, after)
    end = common_length(before[start:][::-1], after[start:][::-1])
    while start and WORD.match(before[start - 1]) and in_word(before, after, start):
        start -= 1
    while end and WORD.match(before[-end]) and in_word(before[::-1], after[::-1], end):
        end -= 1
    old_mark, new_mark = (start, len(before) - end), (start, len(after) - end)
    changed = max(share(old_mark, before), share(new_mark, after))
    if not 0 < changed <= CHANGED_MAX:
        return None, None
    return non_empty(old_mark), non_empty(new_mark)


def common_length(one: str, other: str) -> int:
    """The length of the common prefix."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))


def in_word(one: str, other: str, at: int) -> bool:
    """Whether a word continues at this index in either text."""
    return any(WORD.match(text[at : at + 1]) for text in (one, other))


def share(mark: tuple[int, int], text: str) -> float:
    return (mark[1] - mark[0]) / max(1, len(text))


def non_empty(mark: tuple[int, int]) -> tuple[int, int] | None:
    return mark if mark[0] < mark[1] else None


def side_by_side(rows: Sequence[Row]) -> Iterator[Pair]:
    """The rows as pairs: the old file at the left, the new file at the right."""
    removed: list[Row] = []
    added: list[Row] = []
    for row in rows:
        if row[0] == "-":
            removed.append(row)
        elif row[0] == "+":
            added.append(row)
        elif row[0] != "\\":
            yield from zip_longest(removed, added)
            removed, added = [], []
            yield row, row
    yield from zip_longest(removed, added)


def diff_table(anchor: str, rows: Sequence[Row], view: str) -> SafeString:
    """The table of a file's rows; in the view `split`, old and new side by side."""
    if view == "split":
        cells: Iterable[str] = (split_row(anchor, *pair) for pair in side_by_side(rows))
        return table(SPLIT_START, cells)
    return table(UNIFIED_START, (unified_row(anchor, row) for row in rows))


def file_table(lines: Sequence[Line]) -> SafeString:
    """The table of a file's lines with their numbers."""
    return table(
        FILE_START,
        (
            f'<tr id="L{n}"><td class="n">{line_link(f"L{n}", n)}</td>'
            f'<td class="c">{html_of(line)}</td></tr>\n'
            for n, line in enumerate(lines, 1)
        ),
    )


def table(begin: str, rows: Iterable[str]) -> SafeString:
    return mark_safe("".join([begin, *rows, TABLE_END]))  # noqa: S308 - escaped by `colours`


def line_link(target: str, line: int) -> str:
    """A link to a line. The stylesheet shows the number, which keeps it out of copied text."""
    return f'<a href="#{target}" data-n="{line}" tabindex="-1" aria-label="Line {line}"></a>'


def row_id(anchor: str, row: Row) -> str:
    """The id of a row, by the line number in the new file if it has one."""
    _, old, new, _ = row
    return f"{anchor}-o{old}" if new is None else f"{anchor}-n{new}"


def hunk_heading(row: Row) -> str:
    """The first line of a hunk, in the new file if it has lines, and git's heading."""
    _, old, new, text = row
    heading = f' · <span class="mono">{text}</span>' if text else ""
    return f"Line {new or old}{heading}"


def unified_row(anchor: str, row: Row) -> str:
    sign, old, new, text = row
    if sign == "@":
        text = hunk_heading(row)
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{text}</td></tr>'
    if sign == "\\":
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{text}</td></tr>'
    kind, target = CLASSES[sign], row_id(anchor, row)
    left = "" if old is None else line_link(target, old)
    right = "" if new is None else line_link(target, new)
    return (
        f'<tr id="{target}"><td class="n old{kind}">{left}</td><td class="n new{kind}">{right}</td>'
        f'<td class="c{kind}">{text}</td></tr>\n'
    )


def split_row(anchor: str, left: Row | None, right: Row | None) -> str:
    if right is not None and right[0] == "@":
        return f'<tr class="hunk"><td colspan="4">{hunk_heading(right)}</td></tr>'
    row = right or left
    target = row_id(anchor, row) if row else ""
    return f'<tr id="{target}">{side_cells(target, left, 1)}{side_cells(target, right, 2)}</tr>\n'


def side_cells(target: str, row: Row | None, column: int) -> str:
    """The number and the line of one file; narrow screens hide the left one of equal lines."""
    if row is None:
        return NO_CELLS
    sign, _, _, text = row
    kind = CLASSES[sign] or (" same left" if column == 1 else "")
    which = "old" if column == 1 else "new"
    return (
        f'<td class="n {which}{kind}">{line_link(target, int(row[column] or 0))}</td>'
        f'<td class="c{kind}">{text}</td>'
    )
