"""The changes between two commits as a page shows them: rows of files, within limits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.browse.cache import ENCODING, ForNow, cached
from apps.browse.comparison import diff_too_large
from apps.browse.names import shown_path
from apps.browse.read_slots import heavy_slots
from apps.core.errors import NotFound
from apps.core.json import quoted
from apps.core.lexers import Budget
from apps.core.pagination import with_parameters
from apps.git.diff import FileChange, patches
from apps.git.repo import GitRepo
from apps.git.run import GitTooLarge
from apps.git.tree import read_blobs
from apps.repos.models import Repo
from apps.web.addresses import path_address
from apps.web.colours import CHARACTERS_MAX, Line, coloured_lines
from apps.web.diff_tables import Row, diff_table, rows_of
from apps.web.hidden_characters import rows_have_hidden
from apps.web.responses import PageRequest, page_number

VERSION = 2
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


@dataclass(frozen=True)
class Difference:
    """Two commits and the files that differ.

    `source` is the repository of the new commit, `address` the page with all files, `cache_key` an
    addition to the cache key of the rows, and `throttle_key` that of the caller.
    """

    repo: Repo
    source: Repo
    git: GitRepo
    old: str | None
    new: str
    files: Sequence[FileChange]
    total: int
    additions: int
    deletions: int
    address: str
    cache_key: tuple[Any, ...]
    throttle_key: str
    waits: bool = True
    """Whether to wait for a slot while git is busy; if not, 503 at once."""


def shown_difference(
    request: PageRequest, difference: Difference, *, is_paged: bool = True
) -> dict[str, Any]:
    """The context of `_diff.html`. 404 for a `?file=` that has not changed; 422, 503.

    `is_paged`: whether `?page=` is a page of files.
    """
    view = "split" if request.GET.get("view") == "split" else "unified"
    only_path, page = request.GET.get("file"), page_number(request) if is_paged else 1
    files = changed_files(difference, page, only_path)
    lines_max = SINGLE_FILE_MAX if only_path is not None else LINES_MAX
    ignore_space = request.GET.get("w") == "1"
    rows = read_rows(difference, files_with_rows(files, lines_max), ignore_space)
    more = only_path is None and len(difference.files) > page * FILES_MAX
    return {
        "files": [
            file_context(request, difference, file, rows.get(file.path), view) for file in files
        ],
        "rows": sum(len(found or ()) for found in rows.values()),
        "total": difference.total,
        "additions": difference.additions,
        "deletions": difference.deletions,
        "view": view,
        "ignores_space": ignore_space,
        "other_space": diff_address(request, difference, w=None if ignore_space else "1"),
        "views": [
            (name, diff_address(request, difference, view=name)) for name in ("unified", "split")
        ],
        "only": only_path,
        "all": diff_address(request, difference, file=None) if only_path is not None else None,
        "is_cut": difference.total > len(difference.files),
        "next": diff_address(request, difference, page=page + 1) if more else None,
        "previous": diff_address(request, difference, page=page - 1) if page > 1 else None,
    }


def changed_files(difference: Difference, page: int, only_path: str | None) -> list[FileChange]:
    """The files of a page, or the one with this path; 404."""
    if only_path is None:
        return [*difference.files[(page - 1) * FILES_MAX : page * FILES_MAX]]
    files = [file for file in difference.files if shown_path(file.path) == only_path][:1]
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
    with heavy_slots.slot(difference.throttle_key, waits=difference.waits):
        for at in range(0, len(files), FILES_PER_GIT):
            batch = files[at : at + FILES_PER_GIT]
            ends = difference.git, difference.old, difference.new
            diffs |= patches(*ends, batch, ignore_space=ignore_space)
        shas = [sha for file in files if diffs[file.path] for sha in (file.previous_sha, file.sha)]
        blobs = read_blobs(
            difference.git, filter(None, shas), most=CHARACTERS_MAX, together=SIDES_MAX
        )
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
    """The id of a file on the page."""
    return f"f{hashlib.sha256(path).hexdigest()[:12]}"


def file_context(
    request: PageRequest,
    difference: Difference,
    file: FileChange,
    rows: list[Row] | None,
    view: str,
) -> dict[str, Any]:
    """The context of one file in `_diff.html`."""
    path, anchor, only = shown_path(file.path), anchor_of(file.path), request.GET.get("file")
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
        "address": path_address(difference.source, "files", file.path, sha or ""),
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
    """Old and new mode of a file if they differ."""
    before, after = file.previous_mode, file.mode
    return f"{before} → {after}" if before and after and before != after else ""
