"""Names of commits, short or full, that people write."""

from __future__ import annotations

from apps.git.history import find_commits
from tests.git.scratch import Scratch


def test_commits_are_found_by_what_their_names_begin_with(tmp_path):
    repo = Scratch(tmp_path / "a.git")
    repo.create()
    one = repo.commit({"a": b"1"})
    two = repo.commit({"a": b"2"}, one)
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
    assert find_commits(repo, [sha[:4], sha]) == {sha: sha}
    repo.update_ref(f"refs/heads/{sha[:8]}", first, "0" * 40)
    assert find_commits(repo, [sha[:8], sha[:9]]) == {sha[:9]: sha}
