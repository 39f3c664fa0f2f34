"""Commits as git lists them, newest first."""

import datetime as dt
import os
import re
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import Final, Required, TypedDict, Unpack

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError

FIELDS: Final = ("%H", "%T", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%B")
"""None of them can hold the NUL that stands between them: git cuts names and messages there."""
EPOCH: Final = "1970-01-01T00:00:00+00:00"
"""What is shown for a date that is missing or that no calendar has."""
_DATE: Final = re.compile(r"(.{10}T.{8})([+-])(\d\d):(\d\d)")
_FIRST: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST: Final = dt.datetime(2099, 12, 31, tzinfo=dt.UTC)
"""git reads dates of these years alone, and takes others for now."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who made a commit, and when: ISO 8601 with the offset that the commit has."""

    name: str
    email: str
    date: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit; what is not UTF-8 in its texts is U+FFFD."""

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
    """What `log` can be asked."""

    count: Required[int]
    skip: int
    path: bytes
    author: str
    since: str
    until: str
    exclude: str
    reverse: bool


def log(repo: GitRepo, sha: str, **options: Unpack[Options]) -> list[Commit]:
    """At most `count` commits that `sha` has and `exclude` has not, after the first `skip`.

    `path`: those that change it or what is below it. `author`: this text is in name or email,
    in capitals or not. `since`, `until`: ISO 8601 with an offset, of the committer; git stops at
    the first commits that are older than `since`. `reverse` turns around what was chosen.

    No commits for what is none itself. `GitError` when an object is missing, `GitTimeout` for a
    long walk, `GitTooLarge` when the messages have more bytes than git may write. `ValueError`
    for what is no full name and no date.
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
    """The arguments of `git log` for that, and its input, for which it waits."""
    if not is_sha(sha) or (exclude and not is_sha(exclude)):
        raise ValueError(f"no full object names: {sha!r}, {exclude!r}")
    options = [f"--max-count={count}", f"--skip={skip}"]
    if author:
        options += ["-i", "-F", f"--author={author}"]
    for name, text in (("since", since), ("until", until)):
        if text:
            options.append(f"--{name}={_readable(text)}")
    if reverse:
        options.append("--reverse")
    revisions = f"{sha}\n^{exclude}\n" if exclude else f"{sha}\n"
    form = f"--format={'%x00'.join(FIELDS)}"
    # A `.mailmap` of the default branch would decide what `--author` finds, and may be huge.
    plain = ("-z", "--no-mailmap", "--no-show-signature", "--no-decorate", "--encoding=UTF-8")
    paths = [os.fsdecode(path)] if path else []
    return [*plain, form, *options, "--stdin", "--", *paths], revisions.encode()


def parse_log(out: bytes) -> list[Commit]:
    """The commits of an output in which NUL ends each field. `GitError`: it has another form."""
    *texts, rest = out.decode("utf-8", "replace").split("\0")
    if rest or len(texts) % len(FIELDS):
        raise GitError("git log wrote something else than commits")
    return [_commit(texts[at : at + len(FIELDS)]) for at in range(0, len(texts), len(FIELDS))]


def _commit(texts: list[str]) -> Commit:
    sha, tree, parents, name, email, date, *committer, message = texts
    if not is_sha(sha) or not is_sha(tree):
        raise GitError("git log wrote something else than commits")
    author = Signature(name, email, shown(date))
    name, email, date = committer
    people = author, Signature(name, email, shown(date))
    return Commit(sha, tree, tuple(parents.split()), *people, message)


def shown(text: str) -> str:
    """A date of git's as a calendar has it, from the year 1 to 9999.

    Anybody writes what they like into a commit: an offset that no clock has counts as UTC, and
    `EPOCH` is what git has for a date that it cannot read.
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


def _readable(text: str) -> str:
    """A date as git reads it; `ValueError`."""
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a date without an offset: {text!r}")
    return min(max(moment, _FIRST), _LAST).astimezone(dt.UTC).isoformat(timespec="seconds")
