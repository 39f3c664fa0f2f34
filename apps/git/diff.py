"""The files that differ between two commits, their patches and hunks, and diffs as text.

Copies count as added files.
"""

import os
import re
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Final

from apps.git.repo import EMPTY_TREE, GitRepo, full_sha
from apps.git.run import LIMITS, GitError, GitTooLarge

FILES_MAX: Final = 3000
"""Most files that a comparison holds."""
SIDE_MAX: Final = 1024 * 1024
"""Bytes. If the file is larger on either side, its patch is not shown."""
LINES_MAX: Final = 20_000
"""If more lines of a file have changed, its patch is not shown."""
PATH_MAX: Final = 4096
"""Bytes. If the path is longer, the file's patch is not shown: the paths of up to 30 files are
arguments of one git, and the system limits the size of arguments.
"""
PATCHES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of the patches of one answer together."""

RENAMES: Final = ("-M50", "-l1000")
PLAIN: Final = ("--no-ext-diff", "--no-textconv")
_RAW: Final = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]{40}) ([0-9a-f]{40}) ([AMDRT])\d*")
_LINES: Final = re.compile(rb"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
_STATUS: Final = {
    "A": "added",
    "M": "modified",
    "D": "removed",
    "R": "renamed",
    "T": "type_changed",
}
_TYPE_CHANGED: Final = re.compile(rb"\S+ \S+ \S+ \S+ T")
_SECTION: Final = re.compile(rb"^diff --git ", re.MULTILINE)
_FIRST_HUNK: Final = re.compile(rb"^@@ ", re.MULTILINE)
_NO_MODE: Final = "000000"
_SUBMODULE: Final = "160000"
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
_HEADER: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file. The fields of a side on which the file is absent are None.

    `status` is added, modified, removed, renamed or type_changed (for example from a file to a
    link). A removed file has its old path. `additions` and `deletions` are lines, None for a file
    that git takes as binary. `sha` is the blob's name, for a submodule the commit's.
    """

    path: bytes
    previous_path: bytes | None
    status: str
    additions: int | None
    deletions: int | None
    is_binary: bool
    sha: str | None
    previous_sha: str | None
    mode: str | None
    previous_mode: str | None
    is_too_large: bool = False
    """Whether the file is too large for its patch to be shown; `changes` sets it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """At most `FILES_MAX` files in git's order. The three numbers count all files."""

    files: tuple[FileChange, ...]
    total: int
    additions: int
    deletions: int


def changes(repo: GitRepo, old: str | None, new: str) -> Changes:
    """Compare the trees of two commits. `old` is None for the empty tree, before a root commit.

    A file counts as renamed if half of its content is the same. Raises `GitTooLarge` if git exceeds
    its limits, `GitTimeout`, or `GitError` if an object is missing.
    """
    repo, sides = repo.within(LIMITS["diff-tree"].deadline), (_tree(old), _tree(new))
    options = ("-r", "-z", "--raw", "--numstat", *PLAIN)
    try:
        result = parse_changes(repo.read("diff-tree", *options, *RENAMES, *sides, "--"))
    except GitTooLarge:  # finding renames of large files takes too much memory
        plain = (*options, "--no-renames", *sides, "--")
        result = parse_changes(repo.read("diff-tree", *plain))
    return replace(result, files=tuple(_measured(repo, result.files)))


def parse_changes(pieces: Iterable[bytes]) -> Changes:
    """Parse the output of `git diff-tree --raw --numstat -z`; `GitError` if it is malformed.

    All files are counted, but at most `FILES_MAX` returned. git writes the modes and names of all
    files first, then the line counts of all files.
    """
    fields = _fields(pieces)
    by_path: dict[bytes, FileChange] = {}
    total = added = deleted = 0
    for field in fields:
        if entry := _RAW.fullmatch(field):
            change = _change(entry, fields)
            total += 1
            if total <= FILES_MAX:
                by_path[change.path] = change
        else:
            path, additions, deletions = _lines(field, fields)
            added, deleted = added + (additions or 0), deleted + (deletions or 0)
            if path in by_path:
                by_path[path] = replace(
                    by_path[path],
                    additions=additions,
                    deletions=deletions,
                    is_binary=additions is None,
                )
    return Changes(tuple(by_path.values()), total, added, deleted)


def parse_entries(pieces: Iterable[bytes]) -> Iterator[FileChange]:
    """Parse the output of `git diff-tree --raw -z`, without the numbers of lines; `GitError`."""
    fields = _fields(pieces)
    for field in fields:
        if not (entry := _RAW.fullmatch(field)):
            raise _unreadable()
        yield _change(entry, fields)


def _fields(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The fields of an output in which NUL ends each field."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole
    if rest:
        raise _unreadable()


def _change(entry: re.Match[bytes], names: Iterator[bytes]) -> FileChange:
    """The file of one `--raw` entry. Its names follow in `names`; its lines come later."""
    previous_mode, mode, previous_sha, sha, letter = (part.decode() for part in entry.groups())
    previous_path = _next(names) if letter == "R" else None
    return FileChange(
        path=_next(names),
        previous_path=previous_path,
        status=_STATUS[letter],
        additions=0,
        deletions=0,
        is_binary=False,
        sha=sha if mode != _NO_MODE else None,
        previous_sha=previous_sha if previous_mode != _NO_MODE else None,
        mode=mode if mode != _NO_MODE else None,
        previous_mode=previous_mode if previous_mode != _NO_MODE else None,
    )


def _lines(field: bytes, fields: Iterator[bytes]) -> tuple[bytes, int | None, int | None]:
    """A path with its added and deleted lines. For a rename, both names follow in `fields`."""
    if not (counts := _LINES.fullmatch(field)):
        raise _unreadable()
    additions, deletions = (None if text == b"-" else int(text) for text in counts.groups()[:2])
    if path := counts[3]:
        return path, additions, deletions
    _next(fields)
    return _next(fields), additions, deletions


def _next(fields: Iterator[bytes]) -> bytes:
    if not (field := next(fields, b"")):
        raise _unreadable()
    return field


def _unreadable() -> GitError:
    return GitError("unexpected output of git diff-tree")


def _tree(sha: str | None) -> str:
    return EMPTY_TREE if sha is None else full_sha(sha)


def _measured(repo: GitRepo, files: Collection[FileChange]) -> list[FileChange]:
    """The same files with `is_too_large` set."""
    sides = {file: _contents(file) for file in files}
    shas = [*dict.fromkeys(chain.from_iterable(sides.values()))]
    headers = repo.ask(lambda git: git.info(*(sha.encode() for sha in shas))) if shas else []
    blobs = [header for header in headers if header]
    if len(blobs) < len(shas):
        raise GitError("an object of a changed file is missing")
    large = {header.sha for header in blobs if header.size > SIDE_MAX}
    return [
        replace(file, is_too_large=True) if _is_long(file) or not large.isdisjoint(shas) else file
        for file, shas in sides.items()
    ]


def _contents(file: FileChange) -> list[str]:
    """The names of a file's blobs on both sides; a submodule has none."""
    sides = ((file.previous_mode, file.previous_sha), (file.mode, file.sha))
    return [sha for mode, sha in sides if sha and mode != _SUBMODULE]


def _is_long(file: FileChange) -> bool:
    lines = (file.additions or 0) + (file.deletions or 0)
    return lines > LINES_MAX or len(file.path) + len(file.previous_path or b"") > PATH_MAX


# Patches


def patches(
    repo: GitRepo,
    old: str | None,
    new: str,
    files: Sequence[FileChange],
    *,
    ignore_space: bool = False,
) -> dict[bytes, bytes | None]:
    """Path -> hunks of each of these files. `files` come from `changes` of the same two commits.

    The hunks begin with the first `@@`; they are empty if only the mode or the name changed. The
    value is None for a file that is binary or too large, and for the last files in git's order once
    the patches have `PATCHES_MAX` bytes. With `ignore_space`, lines that differ only in white space
    are equal. Raises the errors of `changes`.
    """
    hunks_by_path: dict[bytes, bytes | None] = {file.path: None for file in files}
    visible = [file for file in _measured(repo, files) if not file.is_binary]
    visible = [file for file in visible if not file.is_too_large]
    before, after = _tree(old), _tree(new)
    space = ("-w",) if ignore_space else ()
    plain = ("--no-renames", *space)
    # A path argument also matches everything in a folder of that name on the other side.
    for status, sides, options in (
        ("added", (EMPTY_TREE, after), plain),
        ("removed", (before, EMPTY_TREE), plain),
        ("modified", (before, after), plain),
        ("type_changed", (before, after), plain),
        ("renamed", (before, after), (*RENAMES, "--diff-filter=R", *space)),
    ):
        group = [file for file in visible if file.status == status]
        bytes_left = PATCHES_MAX - sum(len(patch) for patch in hunks_by_path.values() if patch)
        hunks_by_path |= _patches(repo, sides, options, group, bytes_left)
    return hunks_by_path


def _patches(
    repo: GitRepo,
    sides: tuple[str, str],
    options: tuple[str, ...],
    files: Sequence[FileChange],
    bytes_left: int,
) -> dict[bytes, bytes]:
    """Path -> hunks of the files that git reports with these options, up to `bytes_left`."""
    if not files or bytes_left <= 0:
        return {}
    names = [name for file in files for name in (file.previous_path, file.path) if name]
    paths = [os.fsdecode(name) for name in names]
    arguments = ("--raw", "-r", "-p", "--full-index", *PLAIN, *options, *sides, "--", *paths)
    out, is_cut = _up_to(repo.read("diff-tree", *arguments), bytes_left)
    hunks_by_pair = _parse_patches(out, is_cut)
    files_by_pair = {(file.previous_path, file.path): file for file in files}
    hunks_by_path = {
        pair[1]: hunks for pair, hunks in hunks_by_pair.items() if pair in files_by_pair
    }
    if len(files) > 1 and not is_cut:
        # Among fewer files git may pair renames differently. Alone, each file gets its own pair.
        for file in files:
            if file.path not in hunks_by_path:
                left = bytes_left - sum(map(len, hunks_by_path.values()))
                hunks_by_path |= _patches(repo, sides, options, [file], left)
    return hunks_by_path


def _up_to(pieces: Generator[bytes, None, None], most: int) -> tuple[bytes, bool]:
    """The first `most` bytes, and whether there were more."""
    whole = bytearray()
    with closing(pieces):
        for piece in pieces:
            whole += piece
            if len(whole) > most:
                return bytes(whole[:most]), True
    return bytes(whole), False


def _parse_patches(out: bytes, is_cut: bool) -> dict[tuple[bytes | None, bytes], bytes]:
    """(Previous path, path) -> hunks of an output with all entries before all patches.

    For a file in which only ignored white space changed, git writes an entry but no patch.
    """
    head, end, rest = out.partition(b"\n\n")
    if is_cut and not end:  # cut within the entries
        return {}
    sections = deque(_SECTION.split(rest)[1:])
    if is_cut and sections:
        sections.pop()
    hunks_by_pair = {}
    for line in filter(None, head.split(b"\n")):
        *names, path = map(unquoted, line.split(b"\t")[1:])
        count = 2 if _TYPE_CHANGED.match(line) else 1
        pair = names[0] if names else None, path
        if _is_left_out(line, sections, is_cut):
            hunks_by_pair[pair] = b""
        elif len(sections) >= count:
            hunks_by_pair[pair] = b"".join(_hunks(sections.popleft()) for _ in range(count))
        elif not is_cut:
            raise _unreadable()
    return hunks_by_pair


def _is_left_out(entry: bytes, sections: Sequence[bytes], is_cut: bool) -> bool:
    """Whether git wrote no patch for a file whose content differs."""
    old, new, status = entry.partition(b"\t")[0].split(b" ")[2:5]
    if status != b"M" or old == new:
        return False
    if not sections:
        return not is_cut
    header = _FIRST_HUNK.split(sections[0], maxsplit=1)[0]
    return b"\nindex %b..%b" % (old, new) not in header


def _hunks(section: bytes) -> bytes:
    """The hunks of one file, without its header lines."""
    start = _FIRST_HUNK.search(section)
    return section[start.start() :] if start else b""


def unquoted(name: bytes) -> bytes:
    """The path itself. git quotes a path with unusual bytes like a string in C."""
    if not name.startswith(b'"'):
        return name
    return _ESCAPED.sub(_unescaped, name[1:-1])


def _unescaped(escaped: re.Match[bytes]) -> bytes:
    text = escaped[1]
    return bytes([int(text, 8) & 0xFF]) if len(text) == 3 else _ESCAPES.get(text, text)


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


def changed_lines(hunk: Hunk) -> list[tuple[int, int]]:
    """The lines of the old file that a hunk changes, as first and last lines of ranges: those that
    it removes, and for lines that it only adds, its lines just before and behind them.
    """
    ranges, line = [], hunk.old_start
    last_of_hunk = hunk.old_start + hunk.old_count - 1
    for is_same, group in groupby(hunk.lines, key=lambda line: line.sign == " "):
        removed = sum(line.sign != "+" for line in group)
        first, last = line, line + removed - 1
        if not removed:
            first, last = max(hunk.old_start, line - 1), min(last_of_hunk, line)
        if not is_same and hunk.old_count:
            ranges.append((first, last))
        line += removed
    return ranges


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
