"""Which files differ between two commits, and how, as `git diff-tree` tells; copies are files."""

import os
import re
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from apps.git.quoting import unquoted
from apps.git.repo import EMPTY_TREE, GitRepo, is_sha
from apps.git.run import LIMITS, GitError, GitTooLarge, Started

FILES_MAX: Final = 3000
"""Files that are kept of a comparison."""
SIDE_MAX: Final = 1024 * 1024
"""Bytes of a file on either side, over which nobody is shown its patch."""
LINES_MAX: Final = 20_000
"""Changed lines, over which nobody is shown the patch of a file."""
PATH_MAX: Final = 4096
"""Bytes of a path, over which nobody is shown the file's patch: git is asked for 30 by name, which
a system takes only so many bytes of.
"""
PATCHES_MAX: Final = 4 * 1024 * 1024
"""Bytes of the patches that are shown at once."""

_RENAMES: Final = ("-M50", "-l1000")
_SIZES: Final = ("cat-file", "--batch-check=%(objectsize)")
_PLAIN: Final = ("--no-ext-diff", "--no-textconv")
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


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one file. What its absent side would have is None.

    `status` is added, modified, removed, renamed or type_changed, such as from a file to a link.
    The path of a file that was removed is where it was. `additions`, `deletions`: in lines, None
    where git finds a file binary. `sha`: of the content, of a submodule its commit.
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
    """Whether it is too large for its patch to be shown: `changes` finds that out."""


@dataclass(frozen=True, slots=True)
class Changes:
    """At most `FILES_MAX` files in git's order; the three numbers are those of all."""

    files: tuple[FileChange, ...]
    total: int
    additions: int
    deletions: int


def changes(repo: GitRepo, old: str | None, new: str) -> Changes:
    """What `new` has that `old` has not; None is the empty tree, which the first commit began with.

    Renames are found where a file stays the same by half. `GitTooLarge` for more files than git
    can hold, `GitTimeout`; `GitError` when an object is missing.
    """
    repo, sides = repo.within(LIMITS["diff-tree"].deadline), (_tree(old), _tree(new))
    options = ("-r", "-z", "--raw", "--numstat", *_PLAIN)
    with repo.start(*_SIZES, stdin=None) as measuring:  # while the other one works
        try:
            found = _read(repo.read("diff-tree", *options, *_RENAMES, *sides, "--"), FILES_MAX)
        except GitTooLarge:  # to see whether a large file was renamed, git reads both sides
            plain = (*options, "--no-renames", *sides, "--")
            found = _read(repo.read("diff-tree", *plain), FILES_MAX)
        return replace(found, files=tuple(_measured(measuring, found.files)))


def parse_changes(out: bytes) -> list[FileChange]:
    """The files of `git diff-tree --raw --numstat -z`. `GitError`: it has another form."""
    return [*_read([out], None).files]


def _read(pieces: Iterable[bytes], most: int | None) -> Changes:
    """All files are counted, and at most so many kept: first come all of them with their modes
    and names, then all of them once more with their lines.
    """
    fields = _fields(pieces)
    kept: dict[bytes, FileChange] = {}
    total = added = deleted = 0
    for field in fields:
        if entry := _RAW.fullmatch(field):
            change = _change(entry, fields)
            total += 1
            if most is None or total <= most:
                kept[change.path] = change
        else:
            path, additions, deletions = _lines(field, fields)
            added, deleted = added + (additions or 0), deleted + (deletions or 0)
            if path in kept:
                kept[path] = replace(
                    kept[path],
                    additions=additions,
                    deletions=deletions,
                    is_binary=additions is None,
                )
    return Changes(tuple(kept.values()), total, added, deleted)


def _fields(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What stands before each NUL."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole
    if rest:
        raise _unreadable()


def _change(entry: re.Match[bytes], names: Iterator[bytes]) -> FileChange:
    """The file of one entry, whose names follow it. Its lines are not known yet."""
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
    """A path, and how many lines it gained and lost. Both names of a rename follow."""
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
    return GitError("git diff-tree wrote something else than changes")


def _tree(sha: str | None) -> str:
    if sha is not None and not is_sha(sha):
        raise ValueError(f"no full object name: {sha!r}")
    return sha or EMPTY_TREE


def _measured(git: Started, files: Collection[FileChange]) -> list[FileChange]:
    """The same files; it is known of each whether it is too large to be shown, by a git that waits
    for what it is to measure.
    """
    sides = {file: _contents(file) for file in files}
    shas = [*dict.fromkeys(chain.from_iterable(sides.values()))]
    stdin = "".join(f"{sha}\n" for sha in shas).encode()
    sizes = git.feed(stdin).result().out.split(b"\n") if shas else []
    if missing := [size for size in sizes if size and not size.isdigit()]:
        raise GitError(f"git has no sizes: {missing[0]!r}")
    large = {sha for sha, size in zip(shas, sizes, strict=False) if int(size) > SIDE_MAX}
    return [
        replace(file, is_too_large=True) if _is_long(file) or not large.isdisjoint(shas) else file
        for file, shas in sides.items()
    ]


def _contents(file: FileChange) -> list[str]:
    """The names of a file's content on both sides: none where it is a submodule."""
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
    """Path -> hunks of each of these files, which `changes` of the same two has found.

    They begin with the first `@@`; a file of which only mode or name changed has none. None for
    one that is binary or too large, and for those that git would write last when all of them have
    more than `PATCHES_MAX` bytes together. With `ignore_space` lines that differ in white space
    alone are the same. Errors as of `changes`.
    """
    found: dict[bytes, bytes | None] = {file.path: None for file in files}
    with repo.start(*_SIZES, stdin=None) as measuring:
        shown = [file for file in _measured(measuring, files) if not file.is_binary]
    shown = [file for file in shown if not file.is_too_large]
    before, after = _tree(old), _tree(new)
    space = ("-w",) if ignore_space else ()
    plain = ("--no-renames", *space)
    # Where a file took the place of a folder, its name would mean all that is in the folder too.
    for status, sides, options in (
        ("added", (EMPTY_TREE, after), plain),
        ("removed", (before, EMPTY_TREE), plain),
        ("modified", (before, after), plain),
        ("type_changed", (before, after), plain),
        ("renamed", (before, after), (*_RENAMES, "--diff-filter=R", *space)),
    ):
        group = [file for file in shown if file.status == status]
        room = PATCHES_MAX - sum(len(patch) for patch in found.values() if patch)
        found |= _patches(repo, sides, options, group, room)
    return found


def _patches(
    repo: GitRepo,
    sides: tuple[str, str],
    options: tuple[str, ...],
    files: Sequence[FileChange],
    room: int,
) -> dict[bytes, bytes]:
    """Path -> hunks of those files that git shows so, as far as there is room."""
    if not files or room <= 0:
        return {}
    names = [name for file in files for name in (file.previous_path, file.path) if name]
    paths = [os.fsdecode(name) for name in names]
    asked = ("--raw", "-r", "-p", "--full-index", *_PLAIN, *options, *sides, "--", *paths)
    out, is_cut = _up_to(repo.read("diff-tree", *asked), room)
    shown = _shown(out, is_cut)
    wanted = {(file.previous_path, file.path): file for file in files}
    found = {pair[1]: hunks for pair, hunks in shown.items() if pair in wanted}
    if len(files) > 1 and not is_cut:
        # Of several files that are alike git may take others for each other than among all.
        for file in files:
            if file.path not in found:
                left = room - sum(map(len, found.values()))
                found |= _patches(repo, sides, options, [file], left)
    return found


def _up_to(pieces: Generator[bytes, None, None], most: int) -> tuple[bytes, bool]:
    """At most so many bytes, and whether there were more."""
    whole = bytearray()
    with closing(pieces):
        for piece in pieces:
            whole += piece
            if len(whole) > most:
                return bytes(whole[:most]), True
    return bytes(whole), False


def _shown(out: bytes, is_cut: bool) -> dict[tuple[bytes | None, bytes], bytes]:
    """(Previous path, path) -> hunks, of an output that has all entries before all patches.

    git leaves out the patch of a file of which only white space has changed that it ignores.
    """
    head, end, rest = out.partition(b"\n\n")
    if is_cut and not end:  # within the entries
        return {}
    sections = deque(_SECTION.split(rest)[1:])
    if is_cut and sections:
        sections.pop()
    found = {}
    for line in filter(None, head.split(b"\n")):
        *names, path = map(unquoted, line.split(b"\t")[1:])
        count = 2 if _TYPE_CHANGED.match(line) else 1
        pair = names[0] if names else None, path
        if _is_left_out(line, sections, is_cut):
            found[pair] = b""
        elif len(sections) >= count:
            found[pair] = b"".join(_hunks(sections.popleft()) for _ in range(count))
        elif not is_cut:
            raise _unreadable()
    return found


def _is_left_out(entry: bytes, sections: Sequence[bytes], is_cut: bool) -> bool:
    """Whether git has written no patch of a file that has another content than before."""
    old, new, status = entry.partition(b"\t")[0].split(b" ")[2:5]
    if status != b"M" or old == new:
        return False
    if not sections:
        return not is_cut
    header = _FIRST_HUNK.split(sections[0], maxsplit=1)[0]
    return b"\nindex %b..%b" % (old, new) not in header


def _hunks(section: bytes) -> bytes:
    """What follows the header lines of one file."""
    start = _FIRST_HUNK.search(section)
    return section[start.start() :] if start else b""
