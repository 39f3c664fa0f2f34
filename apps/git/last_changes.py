"""The commit that last changed each entry of a folder, by one walk through history."""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from apps.git.log import calendar_date
from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge

_FIELDS: Final = ("%H", "%cI", "%an", "%ae", "%s")
_PLAIN: Final = ("--no-mailmap", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")


@dataclass(frozen=True, slots=True)
class LastChange:
    """The fields of a commit that a list of files shows. Bytes that are not UTF-8 become U+FFFD."""

    sha: str
    date: str
    """The committer's date: ISO 8601 with the commit's own offset."""
    name: str
    email: str
    """`name` and `email` are the author's."""
    subject: str


@dataclass(slots=True)
class Walk:
    """The result: the last change of the folder, and of its entries by name."""

    newest: LastChange | None = None
    by_name: dict[bytes, LastChange] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the walk ended by itself, rather than at a limit of time or size."""


def last_changes(
    repo: GitRepo, commit: str, path: bytes, names: Collection[bytes], seconds: float
) -> Walk:
    """Find the last change of each name in the folder `path`, within `seconds`.

    A merge counts only if it differs from all of its parents. `GitError` if an object is missing.
    """
    if not is_sha(commit):
        raise ValueError(f"not a full object name: {commit!r}")
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
                    walk.by_name[name] = change
                    left.remove(name)
                if not left:
                    break
        walk.is_whole = True
    except (GitTimeout, GitTooLarge):
        pass
    return walk


def _changed(pieces: Iterator[bytes], skip: int) -> Iterator[tuple[LastChange, bytes]]:
    """Each commit with each entry that it changes. `skip` is the length of the folder's prefix.

    A token that begins with a slash is a commit, any other is a path. git writes a line end before
    the first path, and an empty field after a merge.
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
    """The fields of an output in which NUL ends each field."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole


def _change(header: list[bytes]) -> LastChange:
    sha, date, name, email, subject = (text.decode("utf-8", "replace") for text in header)
    if not is_sha(sha):
        raise GitError("unexpected output of git log")
    return LastChange(sha, calendar_date(date), name, email, subject)
