"""The rows of a diff have the text of git's patch, with colours and marks."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.lexers import Budget
from apps.git.diff import changes, parse_hunks, patches
from apps.web.colours import coloured_lines, plain_lines, text_of
from apps.web.diffs import Row, diff_table, marks_of, rows_of, side_by_side
from tests.git.scratch import Scratch

pytestmark = pytest.mark.once
LINES = st.lists(
    st.sampled_from(["a = 1", "a = 2", "def f():", "  '''", "b\r", "<i>&", "\ufffd", ""]),
    max_size=9,
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def text_in(html):
    return unescape(re.sub(r"<[^>]+>", "", html))


@given(TEXTS, TEXTS)
def test_the_text_of_all_rows_is_what_git_says(old: str, new: str) -> None:
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        before, after = repo.commit({"x.py": old.encode()}), repo.commit({"x.py": new.encode()})
        files = changes(repo, before, after).files
        found = patches(repo, before, after, files)
    for patch in found.values():
        assert patch is not None
        sides = [coloured_lines("x.py", side, Budget(1)) for side in (old, new)]
        rows = rows_of(patch, *sides)
        told = [(row[0], text_in(row[3])) for row in rows if row[0] in " +-"]
        lines = [line for hunk in parse_hunks(patch) for line in hunk.lines]
        for (sign, text), line in zip(sorted(told), sorted_lines(lines), strict=True):
            assert (sign, text) == line
        for sign, number, text in [(row[0], row[1], text_in(row[3])) for row in rows]:
            if sign in " -":
                assert number is not None and old.split("\n")[number - 1] == text
        for sign, number, text in [(row[0], row[2], text_in(row[3])) for row in rows]:
            if sign in " +":
                assert number is not None and new.split("\n")[number - 1] == text
        assert list(flat(rows)) == [row for row in rows if row[0] != "\\"]
        for view in ("unified", "split"):
            html = diff_table("f1", rows, view)
            ids = re.findall(r' id="([^"]+)"', html)
            assert len(ids) == len({*ids})


def sorted_lines(lines):
    return sorted((line.sign, line.text.decode("utf-8", "replace")) for line in lines)


def flat(rows):
    """Rows that stand side by side, back in one column."""
    left: list[Row] = []
    right: list[Row] = []
    for one, other in side_by_side(rows):
        if one == other:
            yield from [*left, *right, one]
            left, right = [], []
        else:
            left += [one] if one else []
            right += [other] if other else []
    yield from [*left, *right]


def line(text):
    return next(iter(plain_lines(text)), [])


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("timedelta(seconds=60)", "timedelta(seconds=30)", ("60", "30")),
        ("a = one + two", "a = one + too", ("two", "too")),
        ("f(x)", "f(x, y)", (None, ", y")),
        ("return 1", "return 1", (None, None)),
        ("abc", "xyz", (None, None)),
        ("", "xyz", (None, None)),
        ("the quick fox", "the quicker fox", ("quick", "quicker")),
        ("aa aa", "aa aa aa", (None, "aa ")),
    ],
)
def test_marks_are_whole_words_where_not_too_much_has_changed(old, new, marked):
    found = marks_of(line(old), line(new))
    texts = [
        text[slice(*mark)] if mark else None for text, mark in zip((old, new), found, strict=True)
    ]
    assert texts[0] == marked[0]
    assert (texts[1] or "").strip() == (marked[1] or "").strip()


@given(st.text("ab 1.", max_size=12), st.text("ab 1.", max_size=12))
def test_what_is_not_marked_is_the_same_in_both(old, new):
    marks = marks_of(line(old), line(new))
    if marks == (None, None):
        return
    rest = [
        text[: mark[0]] + text[mark[1] :] if mark else text
        for text, mark in zip((old, new), marks, strict=True)
    ]
    assert rest[0] == rest[1]
    assert text_of(line(old)) == old


def test_very_long_lines_that_differ_get_no_marks():
    """Finding the ends of words in such lines takes quadratic time."""
    begin = time.thread_time()
    old, new = ([("", end + "a" * 200_000)] for end in "xy")
    assert marks_of(old, new) == (None, None)
    assert time.thread_time() - begin < 10
