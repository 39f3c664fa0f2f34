"""The commit that each line of a file comes from, by `git blame`."""

import datetime as dt
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from apps.git.diff import unquoted
from apps.git.log import EPOCH, Signature
from apps.git.repo import GitRepo, check_shas
from apps.git.run import GitError

_RANGE: Final = re.compile(rb"([0-9a-f]{40}) (\d+) (\d+) (\d+)")
_ONE_MORE: Final = re.compile(rb"[0-9a-f]{40} \d+ \d+")
_ZONE: Final = re.compile(r"([+-])(\d\d)(\d\d)")


@dataclass(frozen=True, slots=True)
class BlamedCommit:
    """A commit that lines come from; `subject` is the first line of its message."""

    sha: str
    subject: str
    author: Signature
    committer: Signature


@dataclass(frozen=True, slots=True)
class BlamedRange:
    """The lines `first` to `last`, counted from 1, that one commit added together.

    In that commit they begin at `original_line` of the file `original_path`.
    """

    first: int
    last: int
    commit: BlamedCommit
    original_path: bytes
    original_line: int


def blame(repo: GitRepo, commit: str, path: bytes, first: int, last: int) -> list[BlamedRange]:
    """The ranges of the lines `first` to `last` of a file, in order. See `blame_parts`."""
    return blame_parts(repo, commit, path, [(first, last)])


def blame_parts(
    repo: GitRepo, commit: str, path: bytes, parts: Sequence[tuple[int, int]]
) -> list[BlamedRange]:
    """The ranges of some parts of a file, each from a first to a last line, in order. The file must
    have these lines.

    Renames of the whole file are followed. Raises `GitTimeout`, or `GitTooLarge` if a former
    version of the file or of its folders does not fit into git's memory limit.
    """
    check_shas(commit)
    lines = [f"-L{first},{last}" for first, last in parts]
    options = ("--porcelain", "--encoding=UTF-8", "--no-progress", *lines)
    # A `.mailmap` of the default branch would replace the names of authors.
    config = {"mailmap.blob": "refs/none"}
    out = repo.git("blame", *options, commit, "--", os.fsdecode(path), config=config).out
    return parse_blame(out)


@dataclass
class _CommitHeader:
    """The header lines of a commit. git writes them only where it names the commit first."""

    fields: dict[str, str] = field(default_factory=dict)
    path: bytes = b""


def parse_blame(out: bytes) -> list[BlamedRange]:
    """Parse the output of `git blame --porcelain`; `GitError` if it is malformed."""
    headers: dict[str, _CommitHeader] = {}
    ranges: list[tuple[int, int, str, bytes, int]] = []
    lines = iter(out.split(b"\n")[:-1])
    for line in lines:
        if not (match := _RANGE.fullmatch(line)):
            raise _unreadable()
        sha = match[1].decode()
        original, first, count = (int(number) for number in match.groups()[1:])
        header = headers.setdefault(sha, _CommitHeader())
        _read_header(lines, header)
        for _ in range(count - 1):
            if not _ONE_MORE.fullmatch(next(lines, b"")) or next(lines, b"")[:1] != b"\t":
                raise _unreadable()
        ranges.append((first, first + count - 1, sha, header.path, original))
    commits = {sha: _commit(sha, header.fields) for sha, header in headers.items()}
    return [
        BlamedRange(first, last, commits[sha], path, original)
        for first, last, sha, path, original in ranges
    ]


def _read_header(lines: Iterator[bytes], header: _CommitHeader) -> None:
    """Read header lines up to the line of the file, which begins with a tab."""
    for line in lines:
        name, _, value = line.partition(b" ")
        if line.startswith(b"\t"):
            return
        if name == b"filename":
            header.path = unquoted(value)
        else:
            header.fields[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    raise _unreadable()


def _commit(sha: str, fields: dict[str, str]) -> BlamedCommit:
    return BlamedCommit(
        sha,
        fields.get("summary", ""),
        _signature(fields, "author"),
        _signature(fields, "committer"),
    )


def _signature(fields: dict[str, str], role: str) -> Signature:
    email = fields.get(f"{role}-mail", "").removeprefix("<").removesuffix(">")
    date = _date(fields.get(f"{role}-time", ""), fields.get(f"{role}-tz", ""))
    return Signature(fields.get(role, ""), email, date)


def _date(seconds: str, zone: str) -> str:
    """ISO 8601 with the commit's own offset, or in UTC if that offset is a day or more."""
    offset = dt.timedelta()
    if match := _ZONE.fullmatch(zone):
        size = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
        offset = size if match[1] == "+" else -size
    if abs(offset) >= dt.timedelta(days=1):
        offset = dt.timedelta()
    try:
        return dt.datetime.fromtimestamp(int(seconds), dt.timezone(offset)).isoformat()
    except (ValueError, OverflowError, OSError):
        return EPOCH


def _unreadable() -> GitError:
    return GitError("unexpected output of git blame")
