"""Which commit was the last to change each entry of a folder: one walk back through history."""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from apps.git.log import shown
from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge

_FIELDS: Final = ("%H", "%cI", "%an", "%ae", "%s")
_PLAIN: Final = ("--no-mailmap", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")


@dataclass(frozen=True, slots=True)
class LastChange:
    """A commit, as far as a list of files shows it; what is not UTF-8 is U+FFFD."""

    sha: str
    date: str
    """Of the committer: ISO 8601 with the offset that the commit has."""
    name: str
    email: str
    """Of the author."""
    subject: str


@dataclass(slots=True)
class Walk:
    """What was found: the newest commit that changed any of it, and for each entry the last one."""

    newest: LastChange | None = None
    found: dict[bytes, LastChange] = field(default_factory=dict)
    is_whole: bool = False
    """Whether there is nothing more to be found."""


def last_changes(
    repo: GitRepo, commit: str, path: bytes, names: Collection[bytes], seconds: float
) -> Walk:
    """Look for the last change of each of these names in a folder, for so many seconds at most.

    A merge counts where it differs from all of its parents. `GitError` when an object is missing.
    """
    if not is_sha(commit):
        raise ValueError(f"no full object name: {commit!r}")
    walk, left, ends = Walk(), {*names}, time.monotonic() + seconds
    paths = [os.fsdecode(path)] if path else []
    form = "--format=%x00/" + "%x00".join(_FIELDS)
    options = ("-z", "-c", "--no-renames", "--name-only", "--root", *_PLAIN, form)
    try:
        with closing(repo.within(seconds).read("log", *options, commit, "--", *paths)) as pieces:
            for change, name in _changed(pieces, len(path) + 1 if path else 0):
                if time.monotonic() >= ends:
                    return walk
                walk.newest = walk.newest or change
                if name in left:
                    walk.found[name] = change
                    left.remove(name)
                if not left:
                    break
        walk.is_whole = True
    except (GitTimeout, GitTooLarge):
        pass
    return walk


def _changed(pieces: Iterator[bytes], skip: int) -> Iterator[tuple[LastChange, bytes]]:
    """Each commit with each name that it changes, without the first `skip` bytes of its path.

    What begins with a slash is no path but a commit. git puts a line end before the first path, or
    after a merge an empty field.
    """
    change, is_first = None, False
    tokens = _tokens(pieces)
    for token in tokens:
        if token.startswith(b"/"):
            change = _change([token[1:], *(next(tokens, b"") for _ in _FIELDS[1:])])
            is_first = True
            continue
        path, is_first = token.removeprefix(b"\n") if is_first else token, False
        if path and change:
            yield change, path[skip:].partition(b"/")[0]


def _tokens(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What stands before each NUL."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole


def _change(header: list[bytes]) -> LastChange:
    sha, date, name, email, subject = (one.decode("utf-8", "replace") for one in header)
    if not is_sha(sha):
        raise GitError("git log wrote something else than commits")
    return LastChange(sha, shown(date), name, email, subject)
