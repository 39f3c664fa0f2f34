"""Two series of commits compared commit by commit, by `git range-diff`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.git.log import Commit, log
from apps.git.repo import GitRepo
from apps.git.run import GitError, GitTooLarge

COMMITS_MAX: Final = 200
"""Most commits of a series: git compares each patch of one with each patch of the other."""

_HEADER: Final = re.compile(
    rb" *(\d+|-): +([0-9a-f]{40}|-{40}) ([=!<>]) +(\d+|-): +([0-9a-f]{40}|-{40})(?: .*)?", re.DOTALL
)
_INDENT: Final = b"    "
_STATUS: Final = {b"=": "equal", b"!": "changed", b"<": "removed", b">": "added"}


@dataclass(frozen=True, slots=True)
class Series:
    """The commits that `head` has and `base` has not. Without a base, there are none."""

    base: str | None
    head: str


@dataclass(frozen=True, slots=True)
class SeriesCommit:
    """A commit of a series. `position` counts from the oldest, from 1, without merges."""

    sha: str
    position: int
    subject: str


@dataclass(frozen=True, slots=True)
class CommitPair:
    """A commit of the old series and the commit of the new one that has a similar patch.

    `status` is equal, changed, added (there is no old commit) or removed (no new one). `diff` is
    the difference between the two patches, messages included; only changed commits have one.
    """

    status: str
    old: SeriesCommit | None
    new: SeriesCommit | None
    diff: bytes | None


def range_diff(repo: GitRepo, old: Series, new: Series) -> list[CommitPair]:
    """Pair the commits of two series in the order of the new one. Merges are left out.

    `GitTooLarge` if a series has more than `COMMITS_MAX` commits, or if git exceeds its limits;
    `GitTimeout`; `GitError` if a commit is missing.
    """
    before, after = _commits(repo, old), _commits(repo, new)
    if not before or not after:  # git refuses an empty range
        removed = [CommitPair("removed", commit, None, None) for commit in before.values()]
        return removed + [CommitPair("added", None, commit, None) for commit in after.values()]
    ranges = (f"{series.base}..{series.head}" for series in (old, new))
    options = ("--no-color", "--no-notes", "--no-ext-diff", "--no-textconv")
    result = repo.git("range-diff", *options, *ranges, config={"core.abbrev": "40"})
    return parse_range_diff(result.out, before, after)


def _commits(repo: GitRepo, series: Series) -> dict[str, SeriesCommit]:
    """The commits of a series by sha, oldest first. Positions are those of git if they differ."""
    if series.base is None:
        return {}
    count = COMMITS_MAX + 1
    commits = log(repo, series.head, count=count, exclude=series.base, reverse=True)
    if len(commits) == count:
        raise GitTooLarge(f"a series has more than {COMMITS_MAX} commits")
    patches: Sequence[Commit] = [commit for commit in commits if len(commit.parents) < 2]
    return {
        commit.sha: SeriesCommit(commit.sha, position, commit.subject)
        for position, commit in enumerate(patches, 1)
    }


def parse_range_diff(
    out: bytes, before: Mapping[str, SeriesCommit], after: Mapping[str, SeriesCommit]
) -> list[CommitPair]:
    """Parse the output of `git range-diff` with full object names; `GitError` if it is malformed.

    Positions tell headers from diffs, because subjects and diffs may look like anything: a diff is
    indented by four spaces, and a header by two at most. Subjects come from the commits.
    """
    pairs: list[CommitPair] = []
    for header, diff in _sections(out):
        if not (match := _HEADER.fullmatch(header)):
            raise GitError("unexpected output of git range-diff")
        old = _commit(before, match[1], match[2])
        new = _commit(after, match[4], match[5])
        status = _STATUS[match[3]]
        if (old is None, new is None) != (status == "added", status == "removed"):
            raise GitError("unexpected output of git range-diff")
        pairs.append(CommitPair(status, old, new, diff if status == "changed" else None))
    return pairs


def _sections(out: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each header with the diff below it."""
    header: bytes | None = None
    lines: list[bytes] = []
    for line in out.split(b"\n")[:-1]:
        if line.startswith(_INDENT):
            lines.append(line.removeprefix(_INDENT) + b"\n")
            continue
        if header is not None:
            yield header, b"".join(lines)
        header, lines = line, []
    if header is not None:
        yield header, b"".join(lines)


def _commit(
    commits: Mapping[str, SeriesCommit], position: bytes, sha: bytes
) -> SeriesCommit | None:
    """The commit of one side of a header; None if it has none there."""
    if position == b"-":
        return None
    if (commit := commits.get(sha.decode())) is None:
        raise GitError("git range-diff names another commit")
    return SeriesCommit(commit.sha, int(position), commit.subject)
