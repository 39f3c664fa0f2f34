"""Rows of a diff and lines of a file as tables. Thousands of them are made faster here than by a
template; whatever comes from people has been escaped by `colours`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.safestring import SafeString, mark_safe

from apps.web.colours import Line, html_of
from apps.web.diff_rows import Row, side_by_side

CLASSES = {"+": " add", "-": " del", " ": ""}
ONE = '<table class="lines one"><colgroup><col class="n old"><col class="n"><col></colgroup><tbody>'
TWO = (
    '<table class="lines two"><colgroup><col class="n"><col><col class="n"><col></colgroup><tbody>'
)
FILE = '<table class="lines whole"><colgroup><col class="n"><col></colgroup><tbody>'
END = "</tbody></table>"
VOID = '<td class="n void"></td><td class="void"></td>'


def diff_table(anchor: str, rows: Sequence[Row], view: str) -> SafeString:
    """The rows of one file, one below the other or, in the view `split`, side by side."""
    if view == "split":
        cells: Iterable[str] = (split_row(anchor, *pair) for pair in side_by_side(rows))
        return table(TWO, cells)
    return table(ONE, (unified_row(anchor, row) for row in rows))


def file_table(lines: Sequence[Line]) -> SafeString:
    """The lines of a file with their numbers."""
    return table(
        FILE,
        (
            f'<tr id="L{n}"><td class="n">{number(f"L{n}", n)}</td>'
            f'<td class="c">{html_of(line)}</td></tr>\n'
            for n, line in enumerate(lines, 1)
        ),
    )


def table(begin: str, rows: Iterable[str]) -> SafeString:
    return mark_safe("".join([begin, *rows, END]))  # noqa: S308 - escaped, as said above


def number(target: str, shown: int) -> str:
    """A link to a line by its number, which the stylesheet shows: so it is not copied."""
    return f'<a href="#{target}" data-n="{shown}" tabindex="-1" aria-label="Line {shown}"></a>'


def target_of(anchor: str, row: Row) -> str:
    """The id of a row: lines of both files have that of the new one."""
    _, old, new, _ = row
    return f"{anchor}-o{old}" if new is None else f"{anchor}-n{new}"


def heading_of(row: Row) -> str:
    """Where a hunk begins: in the new file, if that has lines."""
    _, old, new, shown = row
    heading = f' · <span class="mono">{shown}</span>' if shown else ""
    return f"Line {new or old}{heading}"


def unified_row(anchor: str, row: Row) -> str:
    sign, old, new, shown = row
    if sign == "@":
        shown = heading_of(row)
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{shown}</td></tr>'
    if sign == "\\":
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{shown}</td></tr>'
    kind, target = CLASSES[sign], target_of(anchor, row)
    left = "" if old is None else number(target, old)
    right = "" if new is None else number(target, new)
    return (
        f'<tr id="{target}"><td class="n old{kind}">{left}</td><td class="n new{kind}">{right}</td>'
        f'<td class="c{kind}">{shown}</td></tr>\n'
    )


def split_row(anchor: str, left: Row | None, right: Row | None) -> str:
    if right is not None and right[0] == "@":
        return f'<tr class="hunk"><td colspan="4">{heading_of(right)}</td></tr>'
    row = right or left
    target = target_of(anchor, row) if row else ""
    return f'<tr id="{target}">{side(target, left, 1)}{side(target, right, 2)}</tr>\n'


def side(target: str, row: Row | None, place: int) -> str:
    """The two cells of one file. A line of both is shown once where there is no room for two."""
    if row is None:
        return VOID
    sign, _, _, shown = row
    kind = CLASSES[sign] or (" same left" if place == 1 else "")
    which = "old" if place == 1 else "new"
    return (
        f'<td class="n {which}{kind}">{number(target, int(row[place] or 0))}</td>'
        f'<td class="c{kind}">{shown}</td>'
    )
