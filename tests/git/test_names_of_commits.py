"""apps/git/history.py: finding commits by short and full names."""

from __future__ import annotations

import pytest

from apps.git.history import find_commits
from tests.git.scratch import Scratch

pytestmark = pytest.mark.once


def test_commits_are_found_by_what_their_names_begin_with(tmp_path):
    repo = Scratch(tmp_path / "a.git")
    repo.create()
    one = repo.commit({"a": b"1"})
    two = repo.commit({"a": b"2"}, one)
    repo.update_ref("refs/heads/main", two, "0" * 40)
    blob = repo.store("blob", [b"x"], 1)
    names = [one, two[:4], two[:9], blob, blob[:7], "f" * 40, "0" * 4, "f" * 7]
    assert find_commits(repo, names) == {one: one, two[:4]: two, two[:9]: two}


def test_what_is_no_name_of_a_commit_never_reaches_git(tmp_path):
    repo = Scratch(tmp_path / "absent.git")
    assert (
        find_commits(repo, ["", "abc", "main", "HEAD^{commit}", "a" * 41, "ABCDEF", "abcd\n"]) == {}
    )


def test_a_branch_of_that_name_and_two_commits_of_one_are_not_found(tmp_path):
    repo = Scratch(tmp_path / "a.git")
    repo.create()
    first = repo.commit({"a": b"0"})
    by_start: dict[str, str] = {}
    for number in range(1, 2000):
        sha = repo.commit({"a": b"%d" % number})
        if by_start.setdefault(sha[:4], sha) != sha:
            break
    repo.update_ref("refs/heads/main", sha, "0" * 40)
    assert find_commits(repo, [sha[:4], sha]) == {sha: sha}
    repo.update_ref(f"refs/heads/{sha[:8]}", first, "0" * 40)
    assert find_commits(repo, [sha[:8], sha[:9]]) == {sha[:9]: sha}


def test_what_no_client_is_shown_is_found_by_its_full_name_alone(tmp_path):
    """Its full name allows fetching it, so that trying short names must not reveal it."""
    repo = Scratch(tmp_path / "a.git")
    repo.create()
    base = repo.commit({"a": b"1"})
    gone = repo.commit({"a": b"the password"}, base)
    approved = repo.commit({"a": b"2"}, base)
    pulled, tagged = repo.commit({"a": b"3"}, base), repo.commit({"a": b"4"}, base)
    refs = {"heads/main": base, "pull/1/head": pulled, "tags/v1": tagged}
    for name, sha in (refs | {f"approved/1/{approved}": approved}).items():
        repo.update_ref(f"refs/{name}", sha, "0" * 40)
    visible = {sha[:7]: sha for sha in (base, pulled, tagged)}
    assert find_commits(repo, [*visible, gone[:7], approved[:7]]) == visible
    assert find_commits(repo, [gone, approved]) == {gone: gone, approved: approved}
