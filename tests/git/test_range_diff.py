"""apps/git/range_diff.py: two series of commits in pairs, whatever their texts look like."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.git import range_diff as module
from apps.git.range_diff import CommitPair, Series, parse_range_diff, range_diff
from apps.git.run import LIMITS, GitError, GitTooLarge, Limits
from tests.git.scratch import Scratch

pytestmark = pytest.mark.once
LINES = [b"line %d\n" % number for number in range(30)]
FIRST = b"".join(LINES)
Files = dict[str, bytes]


def edited(number: int, text: bytes) -> bytes:
    return b"".join([*LINES[:number], text + b"\n", *LINES[number + 1 :]])


def series(
    repo: Scratch, base: str, files: Files, *steps: tuple[Files, str]
) -> tuple[Series, list[str]]:
    """Commits above `base`, which has `files`: each step sets some files, with its message."""
    head, shas = base, []
    for change, message in steps:
        files = files | change
        head = repo.commit(files, head, message=message)
        shas.append(head)
    return Series(base, head), shas


def outline(pairs: list[CommitPair]) -> list[tuple[str | int | None, ...]]:
    return [
        (pair.status, *(side.position if side else None for side in (pair.old, pair.new)))
        for pair in pairs
    ]


@pytest.fixture
def base(repo: Scratch) -> str:
    return repo.commit({"text": FIRST})


@pytest.fixture
def moved(repo: Scratch, base: str) -> str:
    """The target has gained a commit."""
    return repo.commit({"text": FIRST, "README": b"new\n"}, base)


A, B, C, D = (({name: name.encode() * 40 + b"\n"}, f"add {name}") for name in "abcd")


def test_a_rebase_that_changes_nothing_gives_equal_pairs(repo, base, moved):
    old, before = series(repo, base, {"text": FIRST}, A, B)
    new, after = series(repo, moved, {"text": FIRST, "README": b"new\n"}, A, B)
    pairs = range_diff(repo, old, new)
    assert outline(pairs) == [("equal", 1, 1), ("equal", 2, 2)]
    assert [pair.old and pair.old.sha for pair in pairs] == before
    assert [pair.new and pair.new.sha for pair in pairs] == after
    assert [pair.new and pair.new.subject for pair in pairs] == ["add a", "add b"]
    assert {pair.diff for pair in pairs} == {None}


def test_commits_that_were_reordered_dropped_and_added(repo, base, moved):
    old, _ = series(repo, base, {"text": FIRST}, A, B, C)
    new, _ = series(repo, moved, {"text": FIRST, "README": b"new\n"}, C, A, D)
    assert sorted(outline(range_diff(repo, old, new)), key=str) == [
        ("added", None, 3),
        ("equal", 1, 2),
        ("equal", 3, 1),
        ("removed", 2, None),
    ]


def test_of_squashed_commits_one_is_changed_and_the_other_removed(repo, base):
    one, two = ({"text": edited(3, b"three")}, "one"), ({"text": edited(3, b"three!")}, "two")
    old, _ = series(repo, base, {"text": FIRST}, one, two, A)
    new, _ = series(repo, base, {"text": FIRST}, ({"text": edited(3, b"three!")}, "one"), A)
    pairs = range_diff(repo, old, new)
    assert sorted(outline(pairs)) == [("changed", 2, 1), ("equal", 3, 2), ("removed", 1, None)]


def test_the_difference_of_a_changed_commit_has_signs_of_two_levels(repo, base, moved):
    old, _ = series(repo, base, {"text": FIRST}, ({"text": edited(3, b"three")}, "count\n\nOld."))
    new, _ = series(
        repo,
        moved,
        {"text": FIRST, "README": b"new\n"},
        ({"text": edited(3, b"3")}, "count\n\nNew."),
    )
    [pair] = range_diff(repo, old, new)
    assert pair.status == "changed"
    assert pair.diff is not None and pair.diff.startswith(b"@@ Metadata\n")
    assert {b"-    Old.", b"+    New.", b"-+three", b"++3", b" -line 3"} <= {
        *pair.diff.split(b"\n")
    }


@pytest.mark.parametrize("is_old_empty", [True, False])
def test_an_empty_series_pairs_with_nothing(repo, base, is_old_empty):
    full, _ = series(repo, base, {"text": FIRST}, A, B)
    for empty in (Series(None, base), Series(base, base), Series(full.head, base)):
        pairs = range_diff(repo, *([empty, full] if is_old_empty else [full, empty]))
        added, removed = (
            [("added", None, 1), ("added", None, 2)],
            [("removed", 1, None), ("removed", 2, None)],
        )
        assert outline(pairs) == (added if is_old_empty else removed)
    assert range_diff(repo, Series(base, base), Series(None, base)) == []


def test_merges_are_left_out(repo, base, moved):
    old, [first] = series(repo, base, {"text": FIRST}, A)
    merge = repo.commit({"text": FIRST, "README": b"new\n", **A[0]}, first, moved)
    pairs = range_diff(repo, old, Series(moved, merge))
    assert outline(pairs) == [("equal", 1, 1)]


def test_two_hundred_commits_are_compared_and_no_more(repo, base, monkeypatch):
    monkeypatch.setattr(module, "COMMITS_MAX", 2)
    two, _ = series(repo, base, {"text": FIRST}, A, B)
    three, _ = series(repo, base, {"text": FIRST}, A, B, C)
    assert len(range_diff(repo, two, two)) == 2
    for pair in ((two, three), (three, two)):
        with pytest.raises(GitTooLarge):
            range_diff(repo, *pair)


def test_positions_of_three_digits_are_read(repo, base):
    steps = [({f"f{number}": b"%d\n" % number}, f"step {number}") for number in range(101)]
    old, _ = series(repo, base, {"text": FIRST}, *steps)
    pairs = range_diff(repo, old, old)
    assert outline(pairs) == [("equal", number, number) for number in range(1, 102)]


def test_an_output_that_is_too_large_is_an_error(repo, base, monkeypatch):
    monkeypatch.setitem(LIMITS, "range-diff", Limits(output=100))
    old, _ = series(repo, base, {"text": FIRST}, A)
    new, _ = series(repo, base, {"text": FIRST}, (A[0], "add a\n\nSaid otherwise.\n" * 20))
    with pytest.raises(GitTooLarge):
        range_diff(repo, old, new)


@pytest.mark.parametrize(
    "out",
    [
        b"text\n",
        b"1:  %b = 1:  %b same\n" % (b"1" * 40, b"2" * 40),
        b"-:  %b = -:  %b neither\n" % (b"-" * 40, b"-" * 40),
        b"1:  %b ? 1:  %b sign\n" % (b"1" * 40, b"2" * 40),
    ],
)
def test_an_output_that_is_not_understood_is_an_error(out):
    with pytest.raises(GitError):
        parse_range_diff(out, {}, {})


HEADER = f"1:  {'1' * 40} = 1:  {'2' * 40} same"
texts = st.sampled_from(
    [HEADER, f"    {HEADER}", "-:  ------- > 3:  abc x", "@@ Metadata", " ## a ##", "x\r", "~"]
) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
names = st.sampled_from(["a", "b b", "ü", '"q', "1:  x", "\t"]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=10
).filter(lambda name: name not in {".", ".."} and ".git" not in name.lower())
steps_of_series = st.lists(st.tuples(names, texts, texts, texts), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(steps_of_series, steps_of_series)
def test_no_text_and_no_name_is_taken_for_anything_else(first, second):
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        base = repo.commit({"text": FIRST})
        both = [
            series(
                repo,
                base,
                {"text": FIRST},
                *(
                    ({name: f"{n}\n{content}\n".encode()}, f"{subject}\n\n{body}")
                    for n, (name, content, subject, body) in enumerate(steps)
                ),
            )
            for steps in (first, second)
        ]
        (old, before), (new, after) = both
        pairs = range_diff(repo, old, new)
    sides = [[pair.old for pair in pairs if pair.old], [pair.new for pair in pairs if pair.new]]
    for commits, shas in zip(sides, (before, after), strict=True):
        assert {commit.position: commit.sha for commit in commits} == dict(enumerate(shas, 1))
    assert all((pair.diff is not None) == (pair.status == "changed") for pair in pairs)
    assert all(pair.diff for pair in pairs if pair.status == "changed")
