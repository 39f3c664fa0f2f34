"""Finds lines of a file again in another commit, or the reason why they are not there.

The two commits are compared directly, however many lie between them. Lines that are found have the
same bytes as before.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from apps.git.diff import PLAIN, RENAMES, SIDE_MAX, FileChange, parse_entries
from apps.git.repo import GitRepo, full_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.git.tree import KINDS, read_blobs

LOOKED_AT: Final = 8000
"""A file is binary if its first bytes, so many of them, contain a NUL. git has the same rule."""
_HUNK: Final = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FILE: Final = re.compile(rb"^index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: \d+)?$", re.MULTILINE)
_TEXT: Final = ("-U0", "--diff-algorithm=histogram", "--text", "--no-color", "--full-index", *PLAIN)
"""Attributes of the repository do not matter to a diff with these options."""
FILES_TOGETHER: Final = 100
"""Most files whose paths are arguments of one git."""
READ_MAX: Final = 8 * 1024 * 1024
"""Most bytes of the contents that are in memory together."""


class Outdated(StrEnum):
    """The reasons why lines of a commit are not in another one."""

    CHANGED = "changed"
    FILE_DELETED = "file_deleted"
    """Also if there is a symbolic link or a submodule now."""
    BINARY = "binary"
    TOO_LARGE = "too_large"
    """The file has more than 1 MiB, or takes git too long."""
    LINE_GONE = "line_gone"


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines `start` to `end` of a file, counted from 1."""

    path: bytes
    start: int
    end: int


Outcome: TypeAlias = Lines | Outdated
Blobs: TypeAlias = tuple[str, str]
"""The names of a file's blobs before and after a change."""


class Hunk(NamedTuple):
    """A change between two files without context. A side without lines has count 0, and its start
    is the line before the change.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int


def split_lines(content: bytes) -> list[bytes]:
    """The lines of a file without their LF. A last line without LF counts."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def shifted(hunks: Iterable[Hunk], start: int, end: int) -> int | Outdated:
    """By how many lines the lines `start` to `end` move down; or why they are not there any more.

    Lines that were inserted right before or after them do not touch them.
    """
    shift = 0
    for hunk in hunks:
        first, last = hunk.old_start, hunk.old_start + hunk.old_count - 1
        if not hunk.old_count:  # inserted between `old_start` and the next line
            first, last = hunk.old_start + 1, hunk.old_start
        if last < start:
            shift += hunk.new_count - hunk.old_count
        elif first <= end:
            is_gone = first <= start and last >= end and not hunk.new_count
            return Outdated.LINE_GONE if is_gone else Outdated.CHANGED
    return shift


def changed_files(
    repo: GitRepo, old: str, new: str, paths: Collection[bytes]
) -> dict[bytes, FileChange]:
    """Path in `old` -> change, of those files among `paths` that differ in `new`. `GitError`."""
    sides = full_sha(old), full_sha(new)
    options = ("-r", "-z", "--raw", "--no-abbrev", *PLAIN)
    try:
        return _of_paths(repo, (*options, *RENAMES, *sides, "--"), paths)
    except GitTooLarge:  # finding renames of large files takes too much memory
        return _of_paths(repo, (*options, "--no-renames", *sides, "--"), paths)


def _of_paths(
    repo: GitRepo, arguments: Sequence[str], paths: Collection[bytes]
) -> dict[bytes, FileChange]:
    changes = parse_entries(repo.read("diff-tree", *arguments))
    pairs = ((change.previous_path or change.path, change) for change in changes)
    return {path: change for path, change in pairs if path in paths and change.previous_sha}


def needs_diff(change: FileChange) -> bool:
    """Whether the contents of the file have to be compared."""
    return _is_file(change) and change.sha != change.previous_sha


def _is_file(change: FileChange) -> bool:
    return change.mode is not None and change.mode not in KINDS


def find_in_files(
    repo: GitRepo,
    old: str,
    new: str,
    changes: Mapping[bytes, FileChange],
    lines: Mapping[bytes, Collection[Lines]],
) -> Iterator[dict[Lines, Outcome]]:
    """Where lines of the commit `old` are in `new`, one file after another. `changes`: those of
    `changed_files`. `GitError`, `GitTimeout` at the deadline of `repo`. A file that takes git too
    long by itself is `TOO_LARGE`.
    """
    differing = [change for change in changes.values() if needs_diff(change)]
    sizes = _sizes(repo, {sha for change in differing for sha in _blobs(change)})
    small = [change for change in differing if sizes.get(str(change.sha), 0) <= SIDE_MAX]
    hunks = _hunks_of_files(repo, old, new, [one for one in small if not one.previous_path])
    for part in _parts(changes, sizes):
        shas = [sha for change in part.values() if needs_diff(change) for sha in _blobs(change)]
        contents = read_blobs(repo, shas, most=SIDE_MAX, together=2 * READ_MAX)
        for path, change in part.items():
            yield _find_in_file(repo, change, lines[path], contents, hunks)


def _sizes(repo: GitRepo, shas: Collection[str]) -> dict[str, int]:
    """The sizes of these blobs, without those that are missing."""
    names = [sha.encode() for sha in shas]
    headers = repo.ask(lambda git: git.info(*names)) if names else []
    return {header.sha: header.size for header in headers if header}


def _parts(
    changes: Mapping[bytes, FileChange], sizes: Mapping[str, int]
) -> Iterator[dict[bytes, FileChange]]:
    """The changes in parts whose contents have together about `READ_MAX` bytes at most."""
    part, total = dict[bytes, FileChange](), 0
    for path, change in changes.items():
        part[path] = change
        total += sum(min(sizes.get(sha, 0), SIDE_MAX) for sha in _blobs(change))
        if total > READ_MAX - 2 * SIDE_MAX:
            yield part
            part, total = {}, 0
    yield part


def _find_in_file(
    repo: GitRepo,
    change: FileChange,
    lines: Collection[Lines],
    contents: Mapping[str, bytes],
    hunks: Mapping[Blobs, list[Hunk]],
) -> dict[Lines, Outcome]:
    if not _is_file(change):
        return dict.fromkeys(lines, Outdated.FILE_DELETED)
    if not needs_diff(change):
        return {one: Lines(change.path, one.start, one.end) for one in lines}
    old, new = blobs = _blobs(change)
    if old not in contents:
        raise GitError(f"object {old} is missing")
    if new in contents and b"\0" in contents[new][:LOOKED_AT]:
        return dict.fromkeys(lines, Outdated.BINARY)
    of_file = hunks.get(blobs)
    if of_file is None and new in contents:
        of_file = _hunks_in_time(repo, *blobs)
    if of_file is None:
        return dict.fromkeys(lines, Outdated.TOO_LARGE)
    before, after = split_lines(contents[old]), split_lines(contents[new])
    return {one: _moved(one, change.path, of_file, before, after) for one in lines}


def _blobs(change: FileChange) -> Blobs:
    return str(change.previous_sha), str(change.sha)


def _hunks_of_files(
    repo: GitRepo, old: str, new: str, changes: Iterable[FileChange]
) -> dict[Blobs, list[Hunk]]:
    """The hunks of files that keep their names, if git can tell those of many at once. `GitTimeout`
    at the deadline of `repo`.
    """
    paths = [os.fsdecode(change.path) for change in changes]
    hunks: dict[Blobs, list[Hunk]] = {}
    for start in range(0, len(paths), FILES_TOGETHER):
        part = paths[start : start + FILES_TOGETHER]
        sides = ("-r", "-p", "--no-renames", full_sha(old), full_sha(new), "--")
        with suppress(GitTooLarge, GitTimeout):
            hunks |= _parse_hunks(repo.git("diff-tree", *_TEXT, *sides, *part).out)
        if monotonic() >= repo.ends:
            raise GitTimeout("comparing files took too long")
    return hunks


def _parse_hunks(out: bytes) -> dict[Blobs, list[Hunk]]:
    """The hunks of each file by its blobs, of an output without context."""
    _, *parts = _FILE.split(out)
    return {
        (old.decode(), new.decode()): _hunks(text)
        for old, new, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def _hunks(text: bytes) -> list[Hunk]:
    numbers = ([1 if part == b"" else int(part) for part in row] for row in _HUNK.findall(text))
    return [Hunk(*row) for row in numbers]


def _hunks_in_time(repo: GitRepo, old: str, new: str) -> list[Hunk] | None:
    """The changes between two blobs; None if they are too many, or take git too long although the
    deadline of `repo` is later.
    """
    try:
        return hunks_between(repo, old, new)
    except GitTooLarge:
        return None
    except GitTimeout:
        if monotonic() >= repo.ends:
            raise
        return None


def _moved(
    lines: Lines, path: bytes, hunks: Sequence[Hunk], before: list[bytes], after: list[bytes]
) -> Outcome:
    shift = shifted(hunks, lines.start, lines.end)
    if isinstance(shift, Outdated):
        return shift
    start, end = lines.start + shift, lines.end + shift
    if before[lines.start - 1 : lines.end] != after[start - 1 : end]:
        return Outdated.CHANGED
    return Lines(path, start, end)


def hunks_between(repo: GitRepo, old: str, new: str) -> list[Hunk]:
    """The changes between two blobs as texts. `GitError`, `GitTooLarge`, `GitTimeout`."""
    return _hunks(repo.git("diff", *_TEXT, full_sha(old), full_sha(new), "--").out)


def find_lines(repo: GitRepo, old: str, new: str, lines: Lines) -> Outcome:
    """Where these lines of the commit `old` are in `new`. `GitError`."""
    changes = changed_files(repo, old, new, {lines.path})
    if not changes:
        return lines
    [outcomes] = find_in_files(repo, old, new, changes, {lines.path: [lines]})
    return outcomes[lines]
