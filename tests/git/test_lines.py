"""apps/git/lines.py: lines that are found in another commit have the same bytes."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git import lines as module
from apps.git import run
from apps.git.lines import (
    Hunk,
    Lines,
    Outdated,
    changed_files,
    find_in_files,
    find_lines,
    hunks_between,
    shifted,
    split_lines,
)
from apps.git.repo import GitRepo
from apps.git.run import GitError, GitTimeout
from apps.git.tree import read_blob
from tests.browse.code import LINK, SUBMODULE, Code

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024


@pytest.fixture
def code(tmp_path):
    code = Code(tmp_path / "repo.git")
    code.create()
    return code


def numbered(first, last):
    return b"".join(b"line %d\n" % number for number in range(first, last + 1))


@pytest.mark.parametrize(
    ("hunk", "outcome"),
    [
        (Hunk(1, 2, 1, 5), 3),
        (Hunk(1, 2, 0, 0), -2),
        (Hunk(9, 0, 10, 4), 4),
        (Hunk(0, 0, 1, 1), 1),
        (Hunk(10, 0, 11, 1), Outdated.CHANGED),
        (Hunk(11, 0, 12, 1), Outdated.CHANGED),
        (Hunk(12, 0, 13, 1), 0),
        (Hunk(13, 5, 13, 1), 0),
        (Hunk(9, 1, 9, 1), 0),
        (Hunk(9, 2, 9, 1), Outdated.CHANGED),
        (Hunk(12, 1, 12, 1), Outdated.CHANGED),
        (Hunk(12, 1, 11, 0), Outdated.CHANGED),
        (Hunk(10, 3, 9, 0), Outdated.LINE_GONE),
        (Hunk(1, 30, 0, 0), Outdated.LINE_GONE),
        (Hunk(10, 3, 10, 3), Outdated.CHANGED),
    ],
)
def test_lines_10_to_12_move_with_changes_above_and_are_outdated_by_those_inside(hunk, outcome):
    assert shifted([hunk], 10, 12) == outcome


def test_several_changes_above_add_up():
    hunks = [Hunk(1, 0, 2, 3), Hunk(4, 2, 7, 0), Hunk(20, 1, 22, 9)]
    assert shifted(hunks, 10, 12) == 1


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", []), (b"a", [b"a"]), (b"a\n", [b"a"]), (b"a\r\n\nb", [b"a\r", b"", b"b"])],
)
def test_a_last_line_without_a_newline_counts(content, lines):
    assert split_lines(content) == lines


def test_a_file_that_moves_and_grows_is_found_under_its_new_name(code):
    old = code.commit_with({b"a": numbered(1, 30)})
    new = code.commit_with({b"b/c": b"new\n" + numbered(1, 30)}, old)
    assert find_lines(code, old, new, Lines(b"a", 5, 7)) == Lines(b"b/c", 6, 8)
    assert find_lines(code, old, old, Lines(b"a", 5, 7)) == Lines(b"a", 5, 7)


def test_an_appended_line_does_not_touch_the_one_above_it(code):
    old = code.commit_with({b"a": b"1\n2\n"})
    new = code.commit_with({b"a": b"1\n2\n3\n"}, old)
    assert find_lines(code, old, new, Lines(b"a", 2, 2)) == Lines(b"a", 2, 2)


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (None, Outdated.FILE_DELETED),
        ((LINK, b"elsewhere"), Outdated.FILE_DELETED),
        ((SUBMODULE, b"1" * 40), Outdated.FILE_DELETED),
        (numbered(1, 30) + b"\0", Outdated.BINARY),
        (numbered(1, 30) + b"x" * MIB, Outdated.TOO_LARGE),
        (numbered(1, 4) + numbered(6, 30), Outdated.LINE_GONE),
        (numbered(1, 4) + b"line five\n" + numbered(6, 30), Outdated.CHANGED),
    ],
)
def test_lines_that_are_not_there_any_more_have_a_reason(code, thing, reason):
    old = code.commit_with({b"a": numbered(1, 30), b"b": b"b"})
    new = code.commit_with({b"b": b"b", **({} if thing is None else {b"a": thing})}, old)
    assert find_lines(code, old, new, Lines(b"a", 5, 5)) == reason


def test_attributes_of_the_repository_change_nothing(code):
    attributes = b"* -diff\na binary diff=x\n"
    old = code.commit_with({b".gitattributes": attributes, b"a": numbered(1, 9)})
    new = code.commit_with({b".gitattributes": attributes, b"a": b"0\n" + numbered(1, 9)}, old)
    code.update_ref("refs/heads/main", new, "0" * 40)
    assert find_lines(code, old, new, Lines(b"a", 5, 5)) == Lines(b"a", 6, 6)


def test_a_missing_commit_is_an_error(code):
    new = code.commit_with({b"a": b"a\n"})
    with pytest.raises(GitError):
        find_lines(code, "1" * 40, new, Lines(b"a", 1, 1))


def test_a_file_that_takes_git_too_long_is_too_large_unless_time_is_up(code, monkeypatch):
    old = code.commit_with({b"a": numbered(1, 9)})
    new = code.commit_with({b"a": b"0\n" + numbered(1, 9)}, old)
    lines = Lines(b"a", 5, 5)

    def late(*_):
        raise GitTimeout("late")

    monkeypatch.setattr(module, "hunks_between", late)
    assert find_lines(code, old, new, lines) == Lines(b"a", 6, 6)
    monkeypatch.setattr(module, "_hunks_of_files", lambda *_: {})
    assert find_lines(code, old, new, lines) == Outdated.TOO_LARGE
    monkeypatch.setattr(module, "monotonic", lambda: float("inf"))
    with pytest.raises(GitTimeout):
        find_lines(code.within(60), old, new, lines)


def test_lines_that_a_wrong_diff_finds_elsewhere_are_outdated(code, monkeypatch):
    old = code.commit_with({b"a": numbered(1, 9)})
    new = code.commit_with({b"a": b"0\n" + numbered(1, 9)}, old)
    monkeypatch.setattr(module, "_hunks_of_files", lambda *_: {})
    monkeypatch.setattr(module, "hunks_between", lambda *_: [])
    assert find_lines(code, old, new, Lines(b"a", 5, 5)) == Outdated.CHANGED


def test_the_changes_of_many_files_are_those_of_each_file(code):
    text = numbered(1, 200)
    old = code.commit_with({b"f%d" % number: text for number in range(120)})
    files = {b"f%d" % number: b"index 1\n@@ -1 +1 @@\n" * number + text for number in range(120)}
    new = code.commit_with(files, old)
    changes = changed_files(code, old, new, files.keys())
    assert len(changes) == 119
    before = run.spawned
    hunks = module._hunks_of_files(code, old, new, changes.values())
    assert run.spawned - before <= 3
    assert len(hunks) == 119
    for pair in [*hunks][::40]:
        assert hunks[pair] == hunks_between(code, *pair)


def check(repo, old, new, paths, ranges):
    """Lines in `new` have the bytes that they have in `old`; returns the outcomes."""
    outcomes = []
    changes, texts, some = changed_files(repo, old, new, paths), {}, {}
    for path, change in changes.items():
        texts[path] = split_lines(read_blob(repo, str(change.previous_sha)))
        some[path] = [Lines(path, *pair) for pair in ranges(len(texts[path]))]
    outcomes_by_file = find_in_files(repo, old, new, changes, some)
    for (path, change), of_file in zip(changes.items(), outcomes_by_file, strict=True):
        before = texts[path]
        for lines, outcome in of_file.items():
            outcomes.append(outcome)
            if isinstance(outcome, Lines):
                after = split_lines(read_blob(repo, str(change.sha)))
                assert 1 <= outcome.start <= outcome.end <= len(after)
                text = after[outcome.start - 1 : outcome.end]
                assert text == before[lines.start - 1 : lines.end], (path, lines, outcome)
                assert outcome.path == change.path
    return outcomes


words = st.sampled_from([b"a", b"b", b"c", b"", b"  a", b"a\r", b"}", b"@@ -1 +1 @@", b"\\ No"])
texts = st.lists(words, min_size=1, max_size=30)
edits = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 4), st.lists(words, max_size=4)), max_size=5
)


@given(texts, edits, st.booleans(), st.booleans())
def test_after_any_edits_lines_are_equal_or_outdated(before, changes, ends, still_ends):
    after = [*before]
    for at, count, inserted in changes:
        after[at : at + count] = inserted
    with TemporaryDirectory() as folder:
        code = Code(Path(folder) / "repo.git")
        code.create()
        old = code.commit_with({b"f": b"\n".join(before) + b"\n" * ends})
        new = code.commit_with({b"f": b"\n".join(after) + b"\n" * still_ends}, old)

        def ranges(count):
            firsts = range(1, count + 1)
            return [(first, last) for first in firsts for last in range(first, count + 1)]

        check(code, old, new, {b"f"}, ranges)


@pytest.mark.slow
def test_in_300_commits_of_our_own_history_lines_are_equal_or_outdated():
    def ours(*args):
        done = subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False
        )
        return done.stdout.split() if done.returncode == 0 else []

    commits = ours("rev-list", "--max-count=340", "HEAD")[::-1]
    if len(commits) < 340 or ours("rev-parse", "--is-shallow-repository") != ["false"]:
        pytest.skip("the history is not here")
    [folder] = ours("rev-parse", "--path-format=absolute", "--git-common-dir")
    repo, rng = GitRepo(Path(folder)), random.Random(4)  # noqa: S311 - no secret
    outcomes = []
    for index, old in enumerate(commits[:300]):
        new = commits[index + rng.randint(1, 40)]
        paths = changed_paths(repo, old, new)

        def ranges(count):
            starts = [rng.randint(1, count) for _ in range(20 if count else 0)]
            return {(start, min(count, start + rng.randint(0, 9))) for start in starts}

        outcomes += check(repo, old, new, {*rng.sample(paths, min(4, len(paths)))}, ranges)
    moved = sum(isinstance(outcome, Lines) for outcome in outcomes)
    assert moved > 5000 and len(outcomes) - moved > 500


def changed_paths(repo, old, new):
    """The text files of `old` that differ in `new`."""
    options = ("-r", "-z", "--name-only", "--diff-filter=MR", "--no-renames")
    out = repo.git("diff-tree", *options, old, new).out
    suffixes = (b".py", b".md", b".html", b".toml", b".css", b".js", b".csv")
    return sorted(path for path in out.split(b"\0") if path.endswith(suffixes))
