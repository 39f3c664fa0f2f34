"""Lists of commits, and the last commit that changed each file, by `git log`."""

import datetime as dt
import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from typing import Final, Required, TypedDict, Unpack

from apps.git.repo import GitRepo, check_shas, is_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge

FIELDS: Final = ("%H", "%T", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%B")
"""Separated by NUL, which none of them can contain: git cuts names and messages there."""
EPOCH: Final = "1970-01-01T00:00:00+00:00"
"""The date shown in place of one that is missing or invalid."""
_DATE: Final = re.compile(r"(.{10}T.{8})([+-])(\d\d):(\d\d)")
_FIRST: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST: Final = dt.datetime(2099, 12, 31, tzinfo=dt.UTC)
"""git reads only dates of these years, and takes any other date as now."""
_FIELDS: Final = ("%H", "%cI", "%an", "%ae", "%s")
_PLAIN: Final = ("--no-mailmap", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")


@dataclass(frozen=True, slots=True)
class Signature:
    """The author or committer of a commit. `date` is ISO 8601 with the commit's own offset."""

    name: str
    email: str
    date: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. Bytes of its texts that are not UTF-8 become U+FFFD."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str

    @property
    def subject(self) -> str:
        """The first paragraph of the message as one line, as git shows it."""
        lines = (line.rstrip() for line in self.message.split("\n"))
        return " ".join(takewhile(bool, dropwhile(lambda line: not line, lines)))


class Options(TypedDict, total=False):
    """The options of `log`."""

    count: Required[int]
    skip: int
    path: bytes
    author: str
    since: str
    until: str
    exclude: str
    reverse: bool


def log(repo: GitRepo, sha: str, **options: Unpack[Options]) -> list[Commit]:
    """At most `count` commits that `sha` has and `exclude` has not, newest first, after `skip`.

    `path`: only commits that change this file or folder. `author`: only commits with this text in
    the author's name or email, in any case. `since`, `until`: limits of the committer's date, ISO
    8601 with an offset; git stops at the first commits older than `since`. `reverse` reverses the
    chosen commits.

    The list is empty if `sha` is not a commit. Raises `GitError` if an object is missing,
    `GitTimeout` for a long walk, `GitTooLarge` if git's output is too large, and `ValueError` if
    a name is not a full object name or a date is invalid.
    """
    arguments, stdin = command(sha, **options)
    return parse_log(repo.git("log", *arguments, stdin=stdin).out)


def command(
    sha: str,
    *,
    count: int,
    skip: int = 0,
    path: bytes = b"",
    author: str = "",
    since: str = "",
    until: str = "",
    exclude: str = "",
    reverse: bool = False,
) -> tuple[list[str], bytes]:
    """The arguments and the standard input of `git log` for these options."""
    check_shas(sha, *([exclude] if exclude else []))
    options = [f"--max-count={count}", f"--skip={skip}"]
    if author:
        options += ["-i", "-F", f"--author={author}"]
    for name, text in (("since", since), ("until", until)):
        if text:
            options.append(f"--{name}={_git_date(text)}")
    if reverse:
        options.append("--reverse")
    revisions = f"{sha}\n^{exclude}\n" if exclude else f"{sha}\n"
    form = f"--format={'%x00'.join(FIELDS)}"
    # A `.mailmap` of the default branch would change what `--author` finds, and may be huge.
    plain = ("-z", "--no-mailmap", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")
    paths = [os.fsdecode(path)] if path else []
    return [*plain, form, *options, "--stdin", "--", *paths], revisions.encode()


def parse_log(out: bytes) -> list[Commit]:
    """Parse output of `git log` with NUL-terminated fields; `GitError` if it is malformed."""
    *texts, rest = out.decode("utf-8", "replace").split("\0")
    if rest or len(texts) % len(FIELDS):
        raise GitError("unexpected output of git log")
    return [_commit(texts[at : at + len(FIELDS)]) for at in range(0, len(texts), len(FIELDS))]


def _commit(texts: list[str]) -> Commit:
    sha, tree, parents, name, email, date, *committer, message = texts
    if not is_sha(sha) or not is_sha(tree):
        raise GitError("unexpected output of git log")
    author = Signature(name, email, calendar_date(date))
    name, email, date = committer
    people = author, Signature(name, email, calendar_date(date))
    return Commit(sha, tree, tuple(parents.split()), *people, message)


def calendar_date(text: str) -> str:
    """A date that git wrote, as a valid ISO 8601 date from the year 1 to 9999.

    A commit may contain any date. An impossible offset is converted to UTC; `EPOCH` replaces an
    impossible date.
    """
    try:
        return dt.datetime.fromisoformat(text).isoformat()
    except ValueError:
        pass
    if not (parts := _DATE.fullmatch(text)):
        return EPOCH
    local, sign, hours, minutes = parts.groups()
    offset = dt.timedelta(hours=int(hours), minutes=int(minutes))
    try:
        there = dt.datetime.fromisoformat(local).replace(tzinfo=dt.UTC)
        return (there - offset if sign == "+" else there + offset).isoformat()
    except (ValueError, OverflowError):
        return EPOCH


def _git_date(text: str) -> str:
    """An ISO 8601 date in the form that git reads; `ValueError` if it is invalid."""
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the date has no offset: {text!r}")
    return min(max(moment, _FIRST), _LAST).astimezone(dt.UTC).isoformat(timespec="seconds")


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
    check_shas(commit)
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
