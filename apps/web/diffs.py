"""The changes between two commits as pages show them: rows with colours and marks, within limits.

Python makes the tables, because a template is too slow for thousands of rows. `colours` has escaped
all text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from apps.browse.cache import ENCODING, ForNow, cached
from apps.browse.comparison import diff_too_large
from apps.browse.names import shown_path
from apps.browse.read_slots import heavy_slots
from apps.core.errors import NotFound
from apps.core.json import quoted
from apps.core.lexers import Budget
from apps.core.pagination import with_parameters
from apps.git.diff import Changes, FileChange, Hunk, parse_hunks, patches
from apps.git.diff import Line as HunkLine
from apps.git.repo import GitRepo
from apps.git.run import GitTooLarge
from apps.git.tree import read_blobs
from apps.repos.models import Repo
from apps.web.code import path_address
from apps.web.colours import (
    CHARACTERS_MAX,
    LINE_MAX,
    Line,
    coloured_lines,
    escaped,
    html_of,
    plain_lines,
    text_of,
)
from apps.web.hidden_characters import rows_have_hidden
from apps.web.responses import PageRequest, page_number

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
NO_CELLS = '<td class="n void"></td><td class="void"></td>'
VERSION = 4
"""Part of the cache key: raise it when the rows change."""
FILES_MAX = 300
"""Files per page."""
LINES_MAX = 3000
"""Changed lines per page."""
UNFOLDED_MAX = 500
"""A file with more rows is folded."""
SINGLE_FILE_MAX = 10_000
"""Rows of a file that is shown alone."""
SECONDS_MAX = 1.5
"""Processor time for colouring one page."""
SIDES_MAX = 8 * 1024 * 1024
"""Bytes of files that are read for colouring one page."""
FILES_PER_GIT = 100
"""Files per git process: their names are its arguments."""
STATUS = {
    "added": "added",
    "removed": "removed",
    "renamed": "renamed",
    "type_changed": "became something else",
}


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


def hunk_heading(row: Row) -> str:
    """The first line of a hunk, in the new file if it has lines, and git's heading."""
    _, old, new, text = row
    heading = f' · <span class="mono">{text}</span>' if text else ""
    return f"Line {new or old}{heading}"


def unified_row(anchor: str, row: Row) -> str:
    sign, old, new, text = row
    if sign in "@\\":
        text = hunk_heading(row) if sign == "@" else text
        return f'<tr class="hunk"><td class="n old"></td><td colspan="2">{text}</td></tr>'
    kind, target = CLASSES[sign], row_id(anchor, row)
    if new is None:
        link = line_link(target, int(old or 0))
        numbers = f'<td class="n old{kind}">{link}</td><td class="n new{kind}"></td>'
    else:
        left = plain_number(old, " old") if old else f'<td class="n old{kind}"></td>'
        numbers = f'{left}<td class="n{kind}">{line_link(target, new)}</td>'
    return f'<tr id="{target}">{numbers}<td class="c{kind}">{text}</td></tr>\n'


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
    line, kind = int(row[column] or 0), CLASSES[sign]
    if kind or column == 2:
        return f'<td class="n{kind}">{line_link(target, line)}</td><td class="c{kind}">{text}</td>'
    return f'{plain_number(line, " same left")}<td class="c same left">{text}</td>'


@dataclass(frozen=True)
class Difference:
    """Two commits and the files that differ. `address` is the page with all files."""

    repo: Repo
    old: str | None
    new: str
    changes: Changes
    address: str
    throttle_key: str
    source: Repo | None = None
    """The repository of the new commit, if that is a fork."""
    git: GitRepo | None = None
    """A repository with the objects of both commits, if that is not `repo`."""
    cache_key: tuple[Any, ...] = ()
    """An addition to the cache key of the rows."""
    waits: bool = True
    """Whether to wait for a slot while git is busy; if not, 503 at once."""


def shown_difference(
    request: PageRequest, difference: Difference, *, is_paged: bool = True
) -> dict[str, Any]:
    """The context of `_diff.html`; 404, 422, 503. `is_paged`: whether `?page=` counts."""
    view = "split" if request.GET.get("view") == "split" else "unified"
    only_path, page = request.GET.get("file"), page_number(request) if is_paged else 1
    files = changed_files(difference, page, only_path)
    lines_max = SINGLE_FILE_MAX if only_path is not None else LINES_MAX
    ignore_space = request.GET.get("w") == "1"
    rows = read_rows(difference, files_with_rows(files, lines_max), ignore_space)
    more = only_path is None and len(difference.changes.files) > page * FILES_MAX
    return {
        "files": [
            file_context(request, difference, file, rows.get(file.path), view) for file in files
        ],
        "rows": sum(len(found or ()) for found in rows.values()),
        "total": difference.changes.total,
        "additions": difference.changes.additions,
        "deletions": difference.changes.deletions,
        "view": view,
        "ignores_space": ignore_space,
        "other_space": diff_address(request, difference, w=None if ignore_space else "1"),
        "views": [
            (name, diff_address(request, difference, view=name)) for name in ("unified", "split")
        ],
        "only": only_path,
        "all": diff_address(request, difference, file=None) if only_path is not None else None,
        "is_cut": difference.changes.total > len(difference.changes.files),
        "next": diff_address(request, difference, page=page + 1) if more else None,
        "previous": diff_address(request, difference, page=page - 1) if page > 1 else None,
    }


def cache_rows(difference: Difference) -> None:
    """Cache the rows of the first page, as `shown_difference` reads them; the same errors."""
    files = files_with_rows(changed_files(difference, 1, None), LINES_MAX)
    read_rows(difference, files, ignore_space=False)


def changed_files(difference: Difference, page: int, only_path: str | None) -> list[FileChange]:
    """The files of a page, or the one with this path; 404."""
    if only_path is None:
        return [*difference.changes.files[(page - 1) * FILES_MAX : page * FILES_MAX]]
    files = [file for file in difference.changes.files if shown_path(file.path) == only_path][:1]
    if not files:
        raise NotFound("not_found", f"{quoted(only_path)} is not among the changed files.")
    return files


def diff_address(request: PageRequest, difference: Difference, **changed: Any) -> str:
    """The address of the first page of changes: this query with some parameters changed."""
    query = with_parameters(request.GET, **{"page": None, **changed})
    return f"{difference.address}?{query}" if query else difference.address


def files_with_rows(files: Sequence[FileChange], lines_left: int) -> list[FileChange]:
    """The files whose rows are shown: in order, each that fits into the remaining lines."""
    selected = []
    for file in files:
        lines = (file.additions or 0) + (file.deletions or 0)
        if not file.is_binary and not file.is_too_large and lines <= lines_left:
            lines_left -= lines
            selected.append(file)
    return selected


def read_rows(
    difference: Difference, files: Sequence[FileChange], ignore_space: bool
) -> dict[bytes, list[Row] | None]:
    """The rows of each of these files by path, cached; None for a file whose patch is too large."""
    if not files:
        return {}
    paths = [file.path.decode(ENCODING) for file in files]
    ends = difference.old, difference.new
    question = ("rows", VERSION, ignore_space, *difference.cache_key, *ends, *paths)
    try:
        answer = cached(
            difference.repo, question, lambda: rows_from_git(difference, files, ignore_space)
        )
    except GitTooLarge:
        raise diff_too_large() from None
    return {
        file.path: rows and [(row[0], row[1], row[2], row[3]) for row in rows]
        for file, rows in zip(files, answer, strict=True)
    }


def rows_from_git(
    difference: Difference, files: Sequence[FileChange], ignore_space: bool
) -> list[list[Row] | None] | ForNow:
    """The rows of each file, from git; `ForNow` keeps rows without all colours out of the cache."""
    diffs: dict[bytes, bytes | None] = {}
    git = difference.git or difference.repo.git
    with heavy_slots.slot(difference.throttle_key, waits=difference.waits):
        for at in range(0, len(files), FILES_PER_GIT):
            batch = files[at : at + FILES_PER_GIT]
            ends = difference.old, difference.new
            diffs |= patches(git, *ends, batch, ignore_space=ignore_space)
        shas = [sha for file in files if diffs[file.path] for sha in (file.previous_sha, file.sha)]
        blobs = read_blobs(git, filter(None, shas), most=CHARACTERS_MAX, together=SIDES_MAX)
    budget = Budget(SECONDS_MAX)

    def side(path: bytes | None, sha: str | None) -> list[Line]:
        if path is None or sha not in blobs or budget.seconds <= 0:
            return []
        text = blobs[sha].decode("utf-8", "replace")
        return coloured_lines(shown_path(path), text, budget)

    def rows(file: FileChange) -> list[Row] | None:
        patch = diffs[file.path]
        if patch is None:
            return None
        old = side(file.previous_path or file.path, file.previous_sha)
        return rows_of(patch, old, side(file.path, file.sha))

    answer = [rows(file) for file in files]
    return ForNow(answer) if budget.is_busy else answer


def anchor_of(path: bytes) -> str:
    """The id of a file on a page of changes; the ids of its lines begin with it."""
    return f"f{hashlib.sha256(path).hexdigest()[:12]}"


def file_context(
    request: PageRequest,
    difference: Difference,
    file: FileChange,
    rows: list[Row] | None,
    view: str,
) -> dict[str, Any]:
    path, only = shown_path(file.path), request.GET.get("file")
    anchor = anchor_of(file.path)
    sha = difference.old if file.status == "removed" else difference.new
    visible = (rows or [])[: SINGLE_FILE_MAX if only is not None else None]
    return {
        "path": path,
        "previous_path": shown_path(file.previous_path) if file.previous_path else "",
        "anchor": anchor,
        "status": STATUS.get(file.status, ""),
        "mode": mode_change(file),
        "additions": file.additions,
        "deletions": file.deletions,
        "address": path_address(
            difference.source or difference.repo, "files", file.path, sha or ""
        ),
        "table": diff_table(anchor, visible, view) if visible else "",
        "row_count": len(rows or ()),
        "is_folded": len(visible) > UNFOLDED_MAX and only is None,
        "is_cut": rows is not None and len(visible) < len(rows),
        "why": why_not_shown(file, rows),
        "has_hidden": rows_have_hidden(visible),
        "alone": diff_address(request, difference, file=path),
    }


def why_not_shown(file: FileChange, rows: list[Row] | None) -> str:
    """The reason why a file has no rows, one word of `_diff.html`; "" if it has rows."""
    if file.is_binary:
        return "binary"
    if file.is_too_large:
        return "too large"
    if rows is None:
        return "no room"
    return "" if rows else "same"


def mode_change(file: FileChange) -> str:
    before, after = file.previous_mode, file.mode
    return f"{before} → {after}" if before and after and before != after else ""
