"""apps/git/blame.py: each line comes from the named commit, which has the same line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git.blame import BlamedRange, blame, blame_parts, parse_blame
from apps.git.diff import changed_lines, changes, parse_hunks, patches
from apps.git.repo import Person
from apps.git.run import GitError, GitTimeout
from tests.git.scratch import ALICE, BOB, Scratch

pytestmark = pytest.mark.once
NAMES = ["a", 'quo"te', "tab\tname", "new\nline", "-x", ":(top)x", "é"]
STEPS = st.tuples(st.sampled_from(NAMES), st.integers(0, 8), st.integers(0, 8))


def lines_at(repo: Scratch, commit: str, path: bytes) -> list[bytes]:
    return repo.git("cat-file", "blob", f"{commit}:{path.decode()}").out.split(b"\n")


def written(repo: Scratch, steps: Sequence[tuple[str, int, int]]) -> list[tuple[str, str]]:
    """A history that changes a few lines of one file in each commit, and sometimes its name."""
    lines, made = [f"line {n} from the beginning on\n" for n in range(9)], list[tuple[str, str]]()
    for number, (name, place, count) in enumerate(steps):
        lines[place : place + count % 3] = [f"{number} in {place}, {n}\n" for n in range(count % 4)]
        files = {name: "".join(lines).encode() + b"the end\n"}
        parents = [made[-1][0]] if made else []
        made.append((repo.commit(files, *parents, message=f"step {number}\n\nmore"), name))
    return made


def check(repo: Scratch, commit: str, path: str, ranges: Sequence[BlamedRange]) -> None:
    """Check that the ranges are contiguous, and that their commits have the same lines."""
    here = lines_at(repo, commit, path.encode())
    for part in ranges:
        there = lines_at(repo, part.commit.sha, part.original_path)
        start, count = part.original_line - 1, part.last - part.first + 1
        assert there[start : start + count] == here[part.first - 1 : part.last]
    assert all(part.last + 1 == after.first for part, after in pairwise(ranges))


@given(st.lists(STEPS, min_size=1, max_size=6))
def test_each_line_is_from_the_commit_that_is_named(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        commits = written(repo, steps)
        head, name = commits[-1]
        count = len(lines_at(repo, head, name.encode())) - 1
        whole = blame(repo, head, name.encode(), 1, count)
        assert (whole[0].first, whole[-1].last) == (1, count)
        check(repo, head, name, whole)
        for number, (sha, _) in enumerate(commits):
            for one in whole:
                if one.commit.sha == sha:
                    assert one.commit.subject == f"step {number}"
        part = blame(repo, head, name.encode(), count, count)
        assert [(one.first, one.commit) for one in part] == [(count, whole[-1].commit)]


def test_people_and_dates_are_those_of_the_commit(repo: Scratch) -> None:
    """A message that imitates a header line, and a mailmap, change nothing."""
    odd = Person("filename x", "summary y")
    mailmap = b"Somebody <else@example.org> <bob@example.org>\n"
    first = repo.commit({"f": b"1\n"}, author=odd, message="author\tz\nof\n\nrest")
    head = repo.commit({"f": b"1\n2\n", ".mailmap": mailmap}, first, author=BOB)
    repo.update_ref("refs/heads/main", head, "0" * 40)
    by_odd, by_bob = (part.commit for part in blame(repo, head, b"f", 1, 2))
    assert (by_odd.author.name, by_odd.author.email) == (odd.name, odd.email)
    assert by_odd.subject == "author\tz"
    assert (by_bob.author.name, by_bob.author.email) == (BOB.name, BOB.email)
    assert by_bob.author.date == "2023-11-15T00:13:20+02:00"
    assert by_bob.committer.date == "2023-11-15T00:13:21+02:00"


@pytest.mark.parametrize(
    ("date", "shown"),
    [
        ("1700000000 -0930", "2023-11-14T12:43:20-09:30"),
        ("1700000000 +9999", "2023-11-14T22:13:20+00:00"),
        ("99999999999999 +0000", "1970-01-01T00:00:00+00:00"),
        ("0 +0000", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_a_date_is_one_of_a_calendar(repo: Scratch, date: str, shown: str) -> None:
    tree = repo.tree("100644", {"f": repo.store("blob", [b"x\n"], 2)})
    text = f"tree {tree}\nauthor A <a@b> {date}\ncommitter A <a@b> {date}\n\nx\n".encode()
    head = repo.store("commit", [text], len(text))
    assert blame(repo, head, b"f", 1, 1)[0].commit.author.date == shown


def test_a_line_that_is_not_there_is_an_error(repo: Scratch) -> None:
    head = repo.commit({"f": b"1\n"})
    for path, first in ((b"f", 2), (b"missing", 1)):
        with pytest.raises(GitError):
            blame(repo, head, path, first, first)
    with pytest.raises(ValueError, match="not a full object name"):
        blame(repo, "HEAD", b"f", 1, 1)


def test_a_file_beside_a_tree_bomb_ends_with_its_limits(repo: Scratch) -> None:
    """git searches all former files for a rename."""
    bomb, blob = repo.tree_bomb(), repo.store("blob", [b"x\n"], 2)
    old = repo.commit_of(repo.tree("40000", {"x": bomb}))
    head = repo.commit_of(repo.tree("100644", {"f": blob}), old)
    with pytest.raises(GitError):
        blame(repo, head, b"f", 1, 1)
    with pytest.raises(GitTimeout):
        blame(repo.within(0), head, b"f", 1, 1)


RANGE = b"1" * 40 + b" 1 1 1\n"


@given(st.binary(), st.sampled_from([b"", RANGE, RANGE + b"author x\nfilename f\n\tx\n"]))
def test_any_bytes_are_ranges_or_refused(rest: bytes, begin: bytes) -> None:
    try:
        ranges = parse_blame(begin + rest)
    except GitError:
        return
    assert all(part.first <= part.last or part.last == 0 for part in ranges)


@pytest.mark.parametrize(
    "out", [b"x\n", RANGE, RANGE + b"author x\n", RANGE.replace(b"1\n", b"2\n") + b"\tx\n"]
)
def test_what_is_no_output_of_blame_is_refused(out: bytes) -> None:
    with pytest.raises(GitError):
        parse_blame(out)


def test_alice_is_named_once_for_all_of_her_lines(repo: Scratch) -> None:
    """git writes the header of a commit only with the first of its lines."""
    first = repo.commit({"f": b"1\n2\n"})
    head = repo.commit({"f": b"1\nnew\n2\n"}, first, author=BOB)
    names = [part.commit.author.name for part in blame(repo, head, b"f", 1, 3)]
    assert names == [ALICE.name, BOB.name, ALICE.name]


LINES = st.lists(st.sampled_from("abcde"), max_size=12)


@given(LINES, LINES)
def test_the_lines_that_a_change_concerns_can_be_blamed(
    before: list[str], after: list[str]
) -> None:
    """Those that it removes, and those around lines that it adds."""
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        files = [
            {"f": "".join(f"{line}\n" for line in lines).encode()} for lines in (before, after)
        ]
        old = repo.commit(files[0])
        new = repo.commit(files[1], old)
        listed = changes(repo, old, new).files
        texts = patches(repo, old, new, listed).values()
        hunks = [hunk for text in texts for hunk in parse_hunks(text or b"")]
        parts = [part for hunk in hunks for part in changed_lines(hunk)]
        concerned = {line for first, last in parts for line in range(first, last + 1)}
        assert len(concerned) >= sum(line.sign == "-" for hunk in hunks for line in hunk.lines)
        assert bool(concerned) == bool(before != after and before)
        blamed = blame_parts(repo, old, b"f", parts) if parts else []
        assert {n for part in blamed for n in range(part.first, part.last + 1)} == concerned
        assert {part.commit.sha for part in blamed} <= {old}
