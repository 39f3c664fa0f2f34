"""The tables of changes and of files as HTML.

Python makes them, because a template is too slow for thousands of rows. `colours` has escaped all
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.safestring import SafeString, mark_safe

from apps.web.colours import Line, html_of
from apps.web.diff_rows import Gap, Item, Row

Pair = tuple[Row | None, Row | None]
"""The rows of the old and of the new file that stand side by side."""
CLASSES = {"+": " add", "-": " del", " ": ""}
UNIFIED_START = (
    '<table class="lines one"><colgroup><col class="n old"><col class="n"><col></colgroup><tbody>'
)
SPLIT_START = (
    '<table class="lines two"><colgroup><col class="n"><col><col class="n"><col></colgroup><tbody>'
)
FILE_START = '<table class="lines whole"><colgroup><col class="n"><col></colgroup><tbody>'
NO_CELLS = '<td class="n void"></td><td class="void"></td>'
STEP = 20
"""Lines that one link opens."""
PLACE = re.compile(r"(f[0-9a-f]{12})-([no])([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?")


@dataclass(frozen=True)
class Place:
    """Lines of one side of a changed file, as an address has them: `f0123456789ab-n10-14`. The side
    is `o` for the old file and `n` for the new one.
    """

    anchor: str
    side: str
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """The place that this text names; None if it names none."""
        match = PLACE.fullmatch(text)
        if match is None:
            return None
        one, other = int(match[3]), int(match[4] or match[3])
        return cls(match[1], match[2], min(one, other), max(one, other))

    @property
    def end(self) -> str:
        """The id of its last row."""
        return f"{self.anchor}-{self.side}{self.last}"

    @property
    def start(self) -> str:
        """The id of its first row."""
        return f"{self.anchor}-{self.side}{self.first}"

    def __str__(self) -> str:
        return self.start if self.first == self.last else f"{self.start}-{self.last}"

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True)
class TableOptions:
    """The links and further rows of a table. The addresses are escaped; "" for no links."""

    anchor: str
    is_split: bool = False
    expand: str = ""
    """The address of the page with more lines opened: a range of lines follows."""
    comment: str = ""
    """The address of the page with the form for a comment: the id of a row follows."""
    marked: Sequence[Place] = ()
    """The places whose rows are marked."""
    below: Mapping[str, SafeString] = field(default_factory=dict)
    """HTML that stands below rows, by their id."""


def diff_table(items: Iterable[Item], options: TableOptions) -> SafeString:
    """The table of a file's changes."""
    if options.is_split:
        pairs = side_by_side(items)
        cells: Iterable[str] = (split_row(options, one) for one in pairs)
        return table(SPLIT_START, cells)
    return table(UNIFIED_START, (unified_row(options, item) for item in items))


def side_by_side(items: Iterable[Item]) -> Iterator[Pair | Gap]:
    """The rows as pairs: the old file at the left, the new file at the right."""
    removed: list[Row] = []
    added: list[Row] = []
    for item in items:
        if isinstance(item, Gap):
            yield from paired(removed, added)
            yield item
        elif item[0] == "-":
            removed.append(item)
        elif item[0] == "+":
            added.append(item)
        elif item[0] == " ":
            yield from paired(removed, added)
            yield item, item
    yield from paired(removed, added)


def paired(removed: list[Row], added: list[Row]) -> Iterator[Pair]:
    """The rows side by side; empties both lists."""
    for at in range(max(len(removed), len(added))):
        left = removed[at] if at < len(removed) else None
        yield left, added[at] if at < len(added) else None
    removed.clear()
    added.clear()


def unified_row(options: TableOptions, item: Item) -> str:
    if isinstance(item, Gap):
        text = gap_text(options, item)
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{text}</td></tr>\n'
    sign, old, new, text = item
    if sign == "\\":
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{text}</td></tr>'
    kind, target = CLASSES[sign], row_id(options.anchor, item)
    if new is None:
        links = number_links(options, target, int(old or 0))
        numbers = f'<td class="n old{kind}">{links}</td><td class="n new{kind}"></td>'
    else:
        left = plain_number(old, " old") if old else f'<td class="n old{kind}"></td>'
        numbers = f'{left}<td class="n{kind}">{number_links(options, target, new)}</td>'
    marked = mark(options, item)
    row = f'<tr id="{target}"{marked}>{numbers}<td class="c{kind}">{text}</td></tr>\n'
    return row + below(options, '<td class="n old"></td><td colspan="2">', item)


def split_row(options: TableOptions, pair: Pair | Gap) -> str:
    if isinstance(pair, Gap):
        return f'<tr class="hunk"><td colspan="4">{gap_text(options, pair)}</td></tr>\n'
    left, right = pair
    row = right or left
    target = row_id(options.anchor, row) if row else ""
    of_left = row_id(options.anchor, left) if left else target
    cells = side_cells(options, of_left, left, 1) + side_cells(options, target, right, 2)
    marked = mark(options, *filter(None, pair))
    further = below(options, '<td colspan="4">', left, right)
    return f'<tr id="{target}"{marked}>{cells}</tr>\n{further}'


def side_cells(options: TableOptions, target: str, row: Row | None, column: int) -> str:
    """The number and the line of one file; narrow screens hide the left one of equal lines."""
    if row is None:
        return NO_CELLS
    sign, _, _, text = row
    line, kind = int(row[column] or 0), CLASSES[sign]
    if kind or column == 2:
        links = number_links(options, target, line)
        return f'<td class="n{kind}">{links}</td><td class="c{kind}">{text}</td>'
    return f'{plain_number(line, " same left")}<td class="c same left">{text}</td>'


def number_links(options: TableOptions, target: str, line: int) -> str:
    """The link to a line, and the link that opens the form for a comment on it. The stylesheet
    shows both, which keeps them out of copied text.
    """
    link = line_link(target, line)
    if not options.comment:
        return link
    return (
        f'{link}<a class="say" href="{options.comment}{target}#{target}" tabindex="-1"'
        f' aria-label="Comment on line {line}"></a>'
    )


def line_link(target: str, line: int) -> str:
    """A link to a line. The stylesheet shows the number, which keeps it out of copied text."""
    return f'<a href="#{target}" data-n="{line}" tabindex="-1" aria-label="Line {line}"></a>'


def plain_number(line: int, kind: str) -> str:
    """The cell of a number whose row has a link at another number: links are most of a row."""
    return f'<td class="n{kind}" data-n="{line}"></td>'


def row_id(anchor: str, row: Row) -> str:
    """The id of a row, by the line number in the new file if it has one."""
    _, old, new, _ = row
    return f"{anchor}-o{old}" if new is None else f"{anchor}-n{new}"


def mark(options: TableOptions, *rows: Row) -> str:
    for place in options.marked:
        for _, old, new, _ in rows:
            line = old if place.side == "o" else new
            if line is not None and line in place:
                return ' class="marked"'
    return ""


def below(options: TableOptions, start: str, *rows: Row | None) -> str:
    """The rows with further HTML below the lines of these rows. `start`: of the cells of a row."""
    if not options.below:
        return ""
    ids: dict[str, None] = {}
    for _, old, new, _ in filter(None, rows):
        ids |= {f"{options.anchor}-{side}{line}": None for side, line in (("o", old), ("n", new))}
    texts = [options.below[one] for one in ids if one in options.below]
    return "".join(f'<tr class="below">{start}{one}</td></tr>\n' for one in texts)


def gap_text(options: TableOptions, gap: Gap) -> str:
    """The links that open a gap, and the line at which the next rows begin with git's heading."""
    heading = f' · <span class="mono">{gap.heading}</span>' if gap.heading else ""
    place = f"Line {gap.last + 1}{heading}" if gap.is_above else ""
    links = " ".join(gap_links(options, gap)) if options.expand and len(gap) else ""
    return f"{links} {place}".strip()


def gap_links(options: TableOptions, gap: Gap) -> Iterator[str]:
    if len(gap) <= STEP:
        count = len(gap)
        words = f"Show {count} hidden line{'' if count == 1 else 's'}"
        target = gap.last + 1 if gap.is_above else gap.first
        yield gap_link(options, f"{gap.first}-{gap.last}", target, words)
        return
    if gap.first > 1:
        after = f"{gap.first}-{gap.first + STEP - 1}"
        yield gap_link(options, after, gap.first - 1, f"↓ {STEP} lines")
    if gap.is_above:
        before = f"{gap.last - STEP + 1}-{gap.last}"
        yield gap_link(options, before, gap.last + 1, f"↑ {STEP} lines")
    if gap.first == 1 or not gap.is_above:
        target = gap.last + 1 if gap.is_above else gap.first
        yield gap_link(options, "all", target, "Whole file")


def gap_link(options: TableOptions, lines: str, target: int, words: str) -> str:
    """A link that opens lines; it leads to the row beside them, where its reader is."""
    href = f"{options.expand}{lines}#{options.anchor}-n{target}"
    hidden = f'<span class="unseen">, lines {lines}</span>'
    return f'<a class="more" href="{href}" data-part>{words}{hidden}</a>'


def file_table(lines: Sequence[Line]) -> SafeString:
    return table(
        FILE_START,
        (
            f'<tr id="L{n}"><td class="n">{line_link(f"L{n}", n)}</td>'
            f'<td class="c">{html_of(line)}</td></tr>\n'
            for n, line in enumerate(lines, 1)
        ),
    )


def table(begin: str, rows: Iterable[str]) -> SafeString:
    return mark_safe("".join([begin, *rows, "</tbody></table>"]))  # noqa: S308 - escaped by `colours`
