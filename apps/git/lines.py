"""Finds lines of a file again in another commit, or the reason why they are not there.

The two commits are compared directly, however many lie between them. Lines that are found have the
same bytes as before.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from apps.git.diff import PLAIN, RENAMES, SIDE_MAX, FileChange, parse_entries
from apps.git.repo import EMPTY_TREE, GitRepo, full_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge
from apps.git.tree import KINDS, read_blobs

LOOKED_AT: Final = 8000
"""A file is binary if its first bytes, so many of them, contain a NUL. git has the same rule."""
_HUNK: Final = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


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
    """Whether `find_in_file` has to compare the contents of the file."""
    return _is_file(change) and change.sha != change.previous_sha


def _is_file(change: FileChange) -> bool:
    return change.mode is not None and change.mode not in KINDS


def find_in_file(
    repo: GitRepo, change: FileChange, lines: Collection[Lines]
) -> dict[Lines, Outcome]:
    """Where lines of a file are after its change. `GitError`, `GitTimeout` at the deadline of
    `repo`. A file that takes git too long by itself is `TOO_LARGE`.
    """
    if not _is_file(change):
        return dict.fromkeys(lines, Outdated.FILE_DELETED)
    if not needs_diff(change):
        return {one: Lines(change.path, one.start, one.end) for one in lines}
    old, new = str(change.previous_sha), str(change.sha)
    blobs = read_blobs(repo, [old, new], most=SIDE_MAX, together=2 * SIDE_MAX)
    if old not in blobs:
        raise GitError(f"object {old} is missing")
    if new in blobs and b"\0" in blobs[new][:LOOKED_AT]:
        return dict.fromkeys(lines, Outdated.BINARY)
    hunks = _hunks_in_time(repo, old, new) if new in blobs else None
    if hunks is None:
        return dict.fromkeys(lines, Outdated.TOO_LARGE)
    before, after = split_lines(blobs[old]), split_lines(blobs[new])
    return {one: _moved(one, change.path, hunks, before, after) for one in lines}


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
    options = ("-U0", "--diff-algorithm=histogram", "--text", "--no-color", *PLAIN)
    # Some versions of git read the attributes of HEAD here, which anybody may push.
    config = {"attr.tree": EMPTY_TREE}
    out = repo.git("diff", *options, full_sha(old), full_sha(new), "--", config=config).out
    numbers = ([1 if part == b"" else int(part) for part in row] for row in _HUNK.findall(out))
    return [Hunk(*row) for row in numbers]


def find_lines(repo: GitRepo, old: str, new: str, lines: Lines) -> Outcome:
    """Where these lines of the commit `old` are in `new`. `GitError`."""
    change = changed_files(repo, old, new, {lines.path}).get(lines.path)
    return lines if change is None else find_in_file(repo, change, [lines])[lines]
