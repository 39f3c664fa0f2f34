"""The changes between two commits as pages show them, within limits.

A page sends the rows of its first files. Further files are heads with a link, and so are files that
a reader has closed. Rows are cached for groups of files, which do not depend on the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from django.http import QueryDict
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.browse.cache import ENCODING, ForNow, cached
from apps.browse.comparison import diff_too_large
from apps.browse.names import quick, shown_path
from apps.browse.read_slots import heavy_slots
from apps.core.errors import NotFound
from apps.core.json import quoted
from apps.core.lexers import Budget
from apps.core.pagination import with_parameters
from apps.git.diff import SIDE_MAX, Changes, FileChange, patches
from apps.git.repo import GitRepo
from apps.git.run import GitTooLarge
from apps.git.tree import read_blobs
from apps.repos.models import Repo
from apps.web.code import path_address
from apps.web.colours import CHARACTERS_MAX, Line, coloured_lines, escaped
from apps.web.colours import SECONDS_MAX as FILE_SECONDS_MAX
from apps.web.colours import VERSION as COLOURS_VERSION
from apps.web.diff_heads import file_head
from apps.web.diff_rows import (
    VERSION,
    Gap,
    Item,
    Range,
    Row,
    opened,
    rows_of,
    visible_parts,
    with_gaps,
)
from apps.web.diff_tables import Place, TableOptions, diff_table
from apps.web.hidden_characters import rows_have_hidden
from apps.web.picture_diffs import is_picture, picture_sides, picture_sizes
from apps.web.responses import PageRequest, page_number
from apps.web.templatetags.anchors import anchor_of

FILES_MAX = 300
"""Files per page."""
LINES_MAX = 3000
"""Changed lines per page."""
ROWS_MAX = 1200
"""Rows of the first files of a page on which a reader can load further files in place."""
UNFOLDED_MAX = 500
"""A file with more rows is folded."""
SINGLE_FILE_MAX = 10_000
"""Rows of a file that is shown alone."""
GROUP_FILES, GROUP_LINES = 100, 1000
"""Most files and changed lines of a group, whose rows are one answer in the cache. The names of the
files are arguments of one git process."""
SECONDS_MAX = 1.5
"""Processor time for colouring one page."""
SIDES_MAX = 8 * 1024 * 1024
"""Bytes of files that are read for colouring one group."""
OPENED_MAX = 20
"""Files of a page in which hidden lines are opened."""
OPENED = re.compile(r"(f[0-9a-f]{12})\.(?:([1-9]\d{0,6})-([1-9]\d{0,6})|all)")
AROUND = 3
"""Lines that are opened before and after a linked line that is not in a hunk."""
STATUS = {
    "added": "added",
    "removed": "removed",
    "renamed": "renamed",
    "type_changed": "became something else",
}


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


@dataclass(frozen=True)
class Reader:
    """The part of a page of changes that depends on its reader and its pull."""

    has_viewed: Callable[[FileChange], bool] = lambda _: False
    hides_viewed: bool = False
    may_mark: bool = False
    """Whether they may mark files as viewed, and comment."""
    places: Callable[[str], Sequence[Place]] = lambda _: ()
    """The lines of a file, by its anchor, that are opened because something stands below them."""
    below: Callable[[str], Mapping[str, SafeString]] = lambda _: {}
    """HTML below the rows of a file, by their id."""
    head: Callable[[str], SafeString] = lambda _: SafeString("")
    """HTML above the rows of a file."""
    comment_count: Callable[[str], int] = lambda _: 0
    has_tools: bool = False
    """Whether the address takes `part`, `name` and `lines` (`pull_files`)."""


NOBODY = Reader()


@dataclass(frozen=True)
class Choices:
    """The files and lines that the query of an address opens, by the anchors of files."""

    opened: frozenset[str] = frozenset()
    ranges: Mapping[str, Sequence[Range]] = field(default_factory=dict)
    marked: Place | None = None
    comment: Place | None = None

    @classmethod
    def of(cls, query: QueryDict) -> Choices:
        """The choices of `open`, `expand`, `lines` and `comment`; other values are ignored."""
        ranges: dict[str, list[Range]] = {}
        for match in map(OPENED.fullmatch, query.getlist("expand")):
            if match and (match[1] in ranges or len(ranges) < OPENED_MAX):
                last = int(match[3]) if match[3] else SINGLE_FILE_MAX
                ranges.setdefault(match[1], []).append((int(match[2] or 1), last))
        places = [chosen_lines(query), Place.parse(query.get("comment", ""))]
        for place in filter(None, places):
            if place.side == "n":
                lines = max(1, place.first - AROUND), place.last + AROUND
                ranges.setdefault(place.anchor, []).append(lines)
        anchors = {place.anchor for place in places if place} | {*query.getlist("open")}
        return cls(frozenset(anchors | ranges.keys()), ranges, *places)


@dataclass
class Page:
    """One page of changes: its request, and the choices of address and reader."""

    request: PageRequest
    difference: Difference
    reader: Reader
    choices: Choices
    rows: Mapping[bytes, list[Row] | None]
    """The rows of the files that are sent."""
    sizes: Mapping[str, int]
    """The sizes of changed pictures, by the names of their blobs."""

    @property
    def is_split(self) -> bool:
        return self.request.GET.get("view") == "split"

    @property
    def is_alone(self) -> bool:
        """Whether the page shows one file."""
        return "file" in self.request.GET

    def address(self, **changed: Any) -> str:
        return diff_address(self.request, self.difference, **changed)

    @cached_property
    def link_start(self) -> SafeString:
        """The address of this page up to a further parameter, which the caller appends; escaped."""
        query = with_parameters(self.request.GET, part=None, comment=None)
        return escape(f"{self.difference.address}?{f'{query}&' if query else ''}")


def chosen_lines(query: QueryDict) -> Place | None:
    """The marked lines: of `lines`, or of the form whose fields begin with `lines_`."""
    if "lines_in" not in query:
        return Place.parse(query.get("lines", ""))
    names = ("lines_in", "lines_side", "lines_from", "lines_to")
    file, side, first, last = (query.get(name, "") for name in names)
    return Place.parse(f"{file}-{side}{first}-{last or first}")


def shown_difference(
    request: PageRequest,
    difference: Difference,
    *,
    is_paged: bool = True,
    reader: Reader = NOBODY,
) -> dict[str, Any]:
    """The context of `_diff.html`; 404, 422, 503. `is_paged`: whether `?page=` counts."""
    number = page_number(request) if is_paged else 1
    files, has_more = changed_files(request, difference, number, reader)
    choices = Choices.of(request.GET) if is_paged else Choices()
    chosen, others = files_with_rows(request, files, reader, choices)
    rows = read_rows(difference, chosen, ignores_space(request))
    rows_max = ROWS_MAX if reader.has_tools else None
    rows |= read_rows(difference, others, ignores_space(request), rows_max)
    git = difference.git or difference.repo.git
    sizes = picture_sizes(difference.repo, git, files)
    page = Page(request, difference, reader, choices, rows, sizes)
    view = "split" if page.is_split else "unified"
    changes = difference.changes
    return {
        "files": with_heads(page, [file_context(page, file) for file in files]),
        "rows": sum(len(found or ()) for found in rows.values()),
        "total": changes.total,
        "additions": changes.additions,
        "deletions": changes.deletions,
        "view": view,
        "ignores_space": ignores_space(request),
        "other_space": page.address(w=None if ignores_space(request) else "1"),
        "views": [(name, page.address(view=name)) for name in ("unified", "split")],
        "only": request.GET.get("file"),
        "all": page.address(file=None) if page.is_alone else None,
        "is_cut": changes.total > len(changes.files),
        "next": page.address(page=number + 1) if has_more else None,
        "previous": page.address(page=number - 1) if number > 1 else None,
    }


def ignores_space(request: PageRequest) -> bool:
    return request.GET.get("w") == "1"


def cache_rows(difference: Difference) -> None:
    """Cache the rows of the first page, as `shown_difference` reads them; the same errors."""
    files = fitting(difference.changes.files[:FILES_MAX], LINES_MAX)
    read_rows(difference, files, ignore_space=False)


def changed_files(
    request: PageRequest, difference: Difference, number: int, reader: Reader
) -> tuple[Sequence[FileChange], bool]:
    """The files of a page, and whether there are more. `?part=` selects one by its anchor, `?file=`
    by its path, which are 404 if there is none; `?name=` those whose path contains a text.
    """
    files: Sequence[FileChange] = difference.changes.files
    only_path, part = request.GET.get("file"), request.GET.get("part")
    if part is not None and reader.has_tools:
        return found(part, [file for file in files if anchor_of(file.path) == part][:1]), False
    if only_path is not None:
        return found(
            only_path, [one for one in files if shown_path(one.path) == only_path][:1]
        ), False
    if reader.has_tools and (name := request.GET.get("name", "").lower()):
        files = [file for file in files if name in shown_path(file.path).lower()]
    if reader.hides_viewed:
        files = [file for file in files if not reader.has_viewed(file)]
    return files[(number - 1) * FILES_MAX : number * FILES_MAX], len(files) > number * FILES_MAX


def found(name: str, files: Sequence[FileChange]) -> Sequence[FileChange]:
    if not files:
        raise NotFound("not_found", f"{quoted(name)} is not among the changed files.")
    return files


def diff_address(request: PageRequest, difference: Difference, **changed: Any) -> str:
    """The address of the first page of changes: this query with some parameters changed."""
    query = with_parameters(request.GET, **{"page": None, "part": None, **changed})
    return f"{difference.address}?{query}" if query else difference.address


def files_with_rows(
    request: PageRequest, files: Sequence[FileChange], reader: Reader, choices: Choices
) -> tuple[list[FileChange], list[FileChange]]:
    """The files whose rows are sent: those that the address opens, and in order the others that the
    reader has not viewed, as far as they fit into the page.
    """
    if "file" in request.GET:
        return fitting(files, SINGLE_FILE_MAX), []
    chosen = [file for file in files if anchor_of(file.path) in choices.opened]
    others = [file for file in files if file not in chosen and not reader.has_viewed(file)]
    return fitting(chosen, SINGLE_FILE_MAX), fitting(others, LINES_MAX)


def can_be_read(file: FileChange) -> bool:
    return not file.is_binary and not file.is_too_large


def lines_of(file: FileChange) -> int:
    return (file.additions or 0) + (file.deletions or 0)


def fitting(files: Sequence[FileChange], lines_left: int) -> list[FileChange]:
    """In order, each file with rows whose changed lines fit into the rest of these."""
    selected = []
    for file in files:
        if can_be_read(file) and lines_of(file) <= lines_left:
            lines_left -= lines_of(file)
            selected.append(file)
    return selected


def groups_of(files: Sequence[FileChange]) -> Iterator[list[FileChange]]:
    """The files that have rows, in groups that depend on nothing else."""
    group: list[FileChange] = []
    lines = 0
    for file in filter(can_be_read, files):
        if group and (len(group) == GROUP_FILES or lines + lines_of(file) > GROUP_LINES):
            yield group
            group, lines = [], 0
        group.append(file)
        lines += lines_of(file)
    if group:
        yield group


def read_rows(
    difference: Difference,
    files: Sequence[FileChange],
    ignore_space: bool,
    rows_left: int | None = None,
) -> dict[bytes, list[Row] | None]:
    """The rows of each of these files by path, cached; None for a file whose patch is too large.
    With `rows_left`, no further files once the rows of the first ones are as many.
    """
    paths, rows = {file.path for file in files}, dict[bytes, list[Row] | None]()
    budget = Budget(SECONDS_MAX)
    for group in groups_of(difference.changes.files) if paths else ():
        names = [file.path for file in group if file.path in paths]
        if not names or rows_left == 0:
            continue
        answers = rows_of_group(difference, group, ignore_space, budget)
        for name in names:
            one = answers[name]
            if rows_left is not None:
                if rows_left == 0:
                    break
                rows_left = max(0, rows_left - len(one or ()))
            rows[name] = one
    return rows


def rows_of_group(
    difference: Difference, group: Sequence[FileChange], ignore_space: bool, budget: Budget
) -> dict[bytes, list[Row] | None]:
    paths = [file.path.decode(ENCODING) for file in group]
    ends = difference.old, difference.new
    question = ("rows", VERSION, ignore_space, *difference.cache_key, *ends, *paths)
    try:
        answers = cached(
            difference.repo,
            question,
            lambda: rows_from_git(difference, group, ignore_space, budget),
        )
    except GitTooLarge:
        raise diff_too_large() from None
    return {
        file.path: rows and [*map(tuple, rows)] for file, rows in zip(group, answers, strict=True)
    }


def rows_from_git(
    difference: Difference, files: Sequence[FileChange], ignore_space: bool, budget: Budget
) -> list[list[Row] | None] | ForNow:
    """The rows of each file, from git; `ForNow` keeps rows without all colours out of the cache."""
    git = difference.git or difference.repo.git
    with heavy_slots.slot(difference.throttle_key, waits=difference.waits):
        diffs = patches(git, difference.old, difference.new, files, ignore_space=ignore_space)
        shas = [sha for file in files if diffs[file.path] for sha in (file.previous_sha, file.sha)]
        blobs = read_blobs(git, filter(None, shas), most=CHARACTERS_MAX, together=SIDES_MAX)

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
        rows = rows_of(patch, old, side(file.path, file.sha))
        both = [blobs.get(sha or "") for sha in (file.previous_sha, file.sha)]
        if rows and file.status in {"modified", "renamed"} and None not in both:
            before, after = (count_lines(content or b"") for content in both)
            rows.append(("$", before, after, ""))
        return rows

    answer = [rows(file) for file in files]
    return ForNow(answer) if budget.is_busy else answer


def count_lines(content: bytes) -> int:
    return content.count(b"\n") + (content[-1:] not in {b"", b"\n"})


def file_lines(difference: Difference, file: FileChange) -> list[Line]:
    """All lines of the new file, coloured and cached; none if it has none, or is too large."""
    if file.sha is None or file.status == "removed":
        return []
    sha, name = file.sha, shown_path(file.path)

    def ask() -> list[Line] | ForNow:
        with quick():
            git = difference.git or difference.repo.git
            blobs = read_blobs(git, [sha], most=SIDE_MAX, together=SIDE_MAX)
        budget = Budget(FILE_SECONDS_MAX)
        lines = coloured_lines(name, blobs.get(sha, b"").decode("utf-8", "replace"), budget)
        return ForNow(lines) if budget.is_busy else lines

    ending = name.rpartition("/")[2]
    lines: list[Line] = cached(difference.repo, ("lines", COLOURS_VERSION, sha, ending), ask)
    return lines


def file_context(page: Page, file: FileChange) -> dict[str, Any]:
    """The context of `_diff_file.html`."""
    path, anchor = shown_path(file.path), anchor_of(file.path)
    rows = page.rows.get(file.path)
    is_sent = file.path in page.rows
    is_open = anchor in page.choices.opened or page.is_alone
    visible = items_of(page, file, rows or [])
    whole = len(visible)
    visible = visible[: SINGLE_FILE_MAX if is_open else None]
    difference = page.difference
    return {
        "path": path,
        "name": mark_safe(escaped(path)),  # noqa: S308 - see `escaped`
        "previous_path": shown_path(file.previous_path) if file.previous_path else "",
        "anchor": anchor,
        "status": STATUS.get(file.status, ""),
        "mode": mode_change(file),
        "additions": file.additions,
        "deletions": file.deletions,
        "lines": lines_of(file),
        "address": page_of_file(difference, file),
        "table": diff_table(visible, table_options(page, file)) if visible else "",
        "row_count": whole,
        "is_folded": whole > UNFOLDED_MAX and not is_open,
        "is_cut": len(visible) < whole,
        "why": why_not_shown(file, rows, is_sent=is_sent),
        "has_hidden": rows_have_hidden(row for row in visible if not isinstance(row, Gap)),
        "alone": "" if visible else page.address(file=path),
        "open": page.link_start + mark_safe(f"open={anchor}#{anchor}"),  # noqa: S308 - hexadecimal
        "lines_link": f"{page.link_start}lines={anchor}-{first_line(rows or ())}",
        "is_viewed": page.reader.has_viewed(file),
        "pictures": pictures_of(page, file),
        "comments": page.reader.head(anchor) if is_sent or file.is_binary else "",
        "comment_count": page.reader.comment_count(anchor),
    }


def first_line(rows: Sequence[Row]) -> str:
    """The first changed line, as an address has it."""
    for sign, old, new, _ in rows:
        if sign in {"+", "-"}:
            return f"n{new}" if new else f"o{old}"
    return "n1"


def pictures_of(page: Page, file: FileChange) -> list[dict[str, Any]]:
    """Both sides of a changed picture; none for other files, and for one that is closed."""
    is_closed = page.reader.has_viewed(file) and anchor_of(file.path) not in page.choices.opened
    if not is_picture(file) or is_closed:
        return []
    difference = page.difference
    new = difference.source or difference.repo, difference.new
    return picture_sides(file, page.sizes, (difference.repo, difference.old or ""), new)


def with_heads(page: Page, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the head of each file, with links to the files before and after."""
    for one, other in pairwise(files):
        one["next"], other["previous"] = other["anchor"], one["anchor"]
    reader = page.reader
    for file in files:
        file["head"] = file_head(file, has_tools=reader.has_tools, may_mark=reader.may_mark)
    return files


def page_of_file(difference: Difference, file: FileChange, kind: str = "files") -> str:
    """The address of the new file, or of the old one if it was removed."""
    sha = difference.old if file.status == "removed" else difference.new
    return path_address(difference.source or difference.repo, kind, file.path, sha or "")


def items_of(page: Page, file: FileChange, rows: Sequence[Row]) -> list[Item]:
    """The rows of a file, with the lines that the address opens."""
    items, anchor = [*with_gaps(rows)], anchor_of(file.path)
    gaps = [item for item in items if isinstance(item, Gap)]
    ranges = [*page.choices.ranges.get(anchor, ())]
    for place in page.reader.places(anchor):
        ranges += around(place, gaps)
    if not any(visible_parts(gap, ranges) for gap in gaps):
        return items
    return [*opened(items, ranges, file_lines(page.difference, file))]


def around(place: Place, gaps: Sequence[Gap]) -> Iterator[Range]:
    """The hidden lines, by their numbers in the new file, that are opened around a place."""
    for gap in gaps:
        shift = gap.shift if place.side == "o" else 0
        first, last = place.first - shift, place.last - shift
        if gap.first <= last and first <= gap.last:
            yield first - AROUND, last + AROUND


def table_options(page: Page, file: FileChange) -> TableOptions:
    anchor, choices = anchor_of(file.path), page.choices
    can_grow = file.status in {"modified", "renamed"}
    return TableOptions(
        anchor,
        page.is_split,
        expand=f"{page.link_start}expand={anchor}." if can_grow else "",
        comment=f"{page.link_start}comment=" if page.reader.may_mark else "",
        marked=[one for one in (choices.marked, choices.comment) if one and one.anchor == anchor],
        below=page.reader.below(anchor),
    )


def why_not_shown(file: FileChange, rows: list[Row] | None, *, is_sent: bool) -> str:
    """The reason why a file has no rows, one word of `_diff_file.html`; "" if it has rows."""
    if file.is_binary:
        return "binary"
    if file.is_too_large:
        return "too large"
    if not is_sent:
        return "closed"
    if rows is None:
        return "no room"
    return "" if rows else "same"


def mode_change(file: FileChange) -> str:
    before, after = file.previous_mode, file.mode
    return f"{before} → {after}" if before and after and before != after else ""
