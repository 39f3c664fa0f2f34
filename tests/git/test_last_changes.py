"""The last change of each entry of a folder is a commit that changes it."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from apps.git.log import last_changes, log
from apps.git.tree import list_tree
from tests.browse.code import Code
from tests.git.histories import History, branches
from tests.git.scratch import git
from tests.git.test_diff import made

pytestmark = pytest.mark.once
LONG = 60.0
ODD = [b"\nline", b"1" * 40, b"a\xff", b"-x", b" ", b"/".join([b"a", b"b"])]


@pytest.fixture
def code(tmp_path: Path) -> Code:
    made = Code(tmp_path / "repo.git")
    made.create()
    return made


def names_in(repo, commit):
    return [entry.path for entry in list_tree(repo, commit, start=0, stop=1000).entries]


@settings(max_examples=10)
@given(branches())
def test_each_name_has_a_commit_that_changes_it(history: History) -> None:
    """If both sides of a merge made the same change, either may be named."""
    with TemporaryDirectory() as folder:
        repo, ours, _ = made(folder, history.stream())
        names = names_in(repo, ours)
        walk = last_changes(repo, ours, b"", names, LONG)
        assert walk.is_whole and {*walk.by_name} == {*names}
        for name, change in walk.by_name.items():
            options = ("--full-history", "--format=%H", ours, "--", os.fsdecode(name))
            assert change.sha in git(repo.path, "log", *options).decode().split()
            [commit] = log(repo, change.sha, count=1)
            assert (change.subject, change.date) == (commit.subject, commit.committer.date)
            assert (change.name, change.email) == (commit.author.name, commit.author.email)


def test_odd_names_and_merges_are_read(code: Code) -> None:
    first = code.commit_with(dict.fromkeys(ODD, b"1\n"), message="")
    left = code.commit_with(dict.fromkeys(ODD, b"2\n"), first, message="left")
    right = code.commit_with(dict.fromkeys(ODD, b"3\n"), first, message="right")
    both = code.commit_with(dict.fromkeys(ODD, b"4\n"), left, right, message="both")
    plain = code.commit_with(dict.fromkeys(ODD, b"4\n"), both, left, message="plain")
    top = code.commit_with({ODD[0]: b"5\n", **dict.fromkeys(ODD[1:], b"4\n")}, plain)
    walk = last_changes(code, top, b"", names_in(code, top), LONG)
    assert walk.newest is not None and walk.newest.sha == top
    assert {name: change.sha for name, change in walk.by_name.items()} == {
        **dict.fromkeys([*ODD[1:5], b"a"], both),
        ODD[0]: top,
    }
    below = last_changes(code, top, b"a", [b"b"], LONG)
    assert {name: change.subject for name, change in below.by_name.items()} == {b"b": "both"}
    assert last_changes(code, first, b"", [ODD[1]], LONG).by_name[ODD[1]].subject == ""


def test_without_time_nothing_is_found_and_that_is_said(code: Code) -> None:
    head = code.commit_with({b"x": b"1\n"})
    walk = last_changes(code, head, b"", [b"x"], 0)
    assert (walk.newest, walk.by_name, walk.is_whole) == (None, {}, False)
    with pytest.raises(ValueError, match="full object name"):
        last_changes(code, "main", b"", [b"x"], LONG)
