"""Which commit each line of a file is from, as `git blame` tells."""

import datetime as dt
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from apps.git.log import EPOCH, Signature
from apps.git.quoting import unquoted
from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError

_RANGE: Final = re.compile(rb"([0-9a-f]{40}) (\d+) (\d+) (\d+)")
_ONE_MORE: Final = re.compile(rb"[0-9a-f]{40} \d+ \d+")
_ZONE: Final = re.compile(r"([+-])(\d\d)(\d\d)")


@dataclass(frozen=True, slots=True)
class BlamedCommit:
    """A commit that lines are from; `subject` is the first line of its message."""

    sha: str
    subject: str
    author: Signature
    committer: Signature


@dataclass(frozen=True, slots=True)
class BlamedRange:
    """The lines `first` to `last`, from 1, which came together with one commit. In it they begin
    at `original_line` of the file `original_path`.
    """

    first: int
    last: int
    commit: BlamedCommit
    original_path: bytes
    original_line: int


def blame(repo: GitRepo, commit: str, path: bytes, first: int, last: int) -> list[BlamedRange]:
    """Where the lines `first` to `last` of a file are from, in their order; the file has them all.

    Renames of the whole file are followed. `GitTimeout`, and `GitTooLarge` where the file or the
    folders around it were once larger than git can hold.
    """
    if not is_sha(commit):
        raise ValueError(f"no full object name: {commit!r}")
    lines = f"-L{first},{last}"
    options = ("--porcelain", "--encoding=UTF-8", "--no-progress", lines)
    # Else a `.mailmap` of the default branch would say who wrote what.
    config = {"mailmap.blob": "refs/none"}
    out = repo.git("blame", *options, commit, "--", os.fsdecode(path), config=config).out
    return parse_blame(out)


@dataclass
class _Told:
    """What git says of a commit, the first time that it names it."""

    facts: dict[str, str] = field(default_factory=dict)
    path: bytes = b""


def parse_blame(out: bytes) -> list[BlamedRange]:
    """The ranges of an output of `git blame --porcelain`. `GitError`: it has another form."""
    told: dict[str, _Told] = {}
    ranges: list[tuple[int, int, str, bytes, int]] = []
    lines = iter(out.split(b"\n")[:-1])
    for head in lines:
        if not (found := _RANGE.fullmatch(head)):
            raise _unreadable()
        sha = found[1].decode()
        original, first, count = (int(number) for number in found.groups()[1:])
        one = told.setdefault(sha, _Told())
        _read_facts(lines, one)
        for _ in range(count - 1):
            if not _ONE_MORE.fullmatch(next(lines, b"")) or next(lines, b"")[:1] != b"\t":
                raise _unreadable()
        ranges.append((first, first + count - 1, sha, one.path, original))
    commits = {sha: _commit(sha, one.facts) for sha, one in told.items()}
    return [BlamedRange(one[0], one[1], commits[one[2]], *one[3:]) for one in ranges]


def _read_facts(lines: Iterator[bytes], told: _Told) -> None:
    """Read on to the line itself, which begins with a tab."""
    for line in lines:
        name, _, value = line.partition(b" ")
        if line.startswith(b"\t"):
            return
        if name == b"filename":
            told.path = unquoted(value)
        else:
            told.facts[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    raise _unreadable()


def _commit(sha: str, facts: dict[str, str]) -> BlamedCommit:
    return BlamedCommit(
        sha, facts.get("summary", ""), _signature(facts, "author"), _signature(facts, "committer")
    )


def _signature(facts: dict[str, str], role: str) -> Signature:
    email = facts.get(f"{role}-mail", "").removeprefix("<").removesuffix(">")
    date = _date(facts.get(f"{role}-time", ""), facts.get(f"{role}-tz", ""))
    return Signature(facts.get(role, ""), email, date)


def _date(seconds: str, zone: str) -> str:
    """ISO 8601 with the offset that the commit has: UTC for one that no clock has."""
    offset = dt.timedelta()
    if found := _ZONE.fullmatch(zone):
        size = dt.timedelta(hours=int(found[2]), minutes=int(found[3]))
        offset = size if found[1] == "+" else -size
    if abs(offset) >= dt.timedelta(days=1):
        offset = dt.timedelta()
    try:
        return dt.datetime.fromtimestamp(int(seconds), dt.timezone(offset)).isoformat()
    except (ValueError, OverflowError, OSError):
        return EPOCH


def _unreadable() -> GitError:
    return GitError("git blame wrote something else than lines and commits")
