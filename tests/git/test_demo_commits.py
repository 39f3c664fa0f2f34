"""config.demo_commits: commits made of texts."""

from datetime import UTC, datetime

import pytest

from config.demo_commits import write_commit
from tests.git.scratch import ALICE, BOB, Scratch, git

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_commit_holds_exactly_its_files(repo: Scratch) -> None:
    files = {"a.txt": "Grüße\n", "a/b/c.txt": "deep\n", "a-b.txt": "", "a/d.txt": "d\n"}
    sha = write_commit(repo, files, author=ALICE, when=WHEN, message="Say hello")
    listed = git(repo.path, "ls-tree", "-r", "--name-only", sha).decode().splitlines()
    assert sorted(listed) == sorted(files)
    assert git(repo.path, "show", f"{sha}:a.txt").decode() == "Grüße"
    assert git(repo.path, "show", "-s", "--format=%an %ae %at %s", sha).decode() == (
        f"Alice Archer alice@example.org {int(WHEN.timestamp())} Say hello"
    )
    assert git(repo.path, "fsck", "--strict", "--no-dangling", sha) == b""


def test_history_follows_the_parents(repo: Scratch) -> None:
    first = write_commit(repo, {"a": "1"}, author=ALICE, when=WHEN, message="one")
    second = write_commit(repo, {"a": "2"}, parents=[first], author=BOB, when=WHEN, message="two")
    assert repo.is_ancestor(first, second)
    assert repo.diff_stat(first, second).changed_files == 1
    with pytest.raises(ValueError, match="no full object names"):
        write_commit(repo, {}, parents=["main"], author=BOB, when=WHEN, message="three")


@pytest.mark.parametrize("path", [".git/config", "a/.GIT/x", "../up", "/etc/x", "a\0b"])
def test_a_path_that_no_clone_could_check_out_is_refused(repo: Scratch, path: str) -> None:
    with pytest.raises(ValueError, match="no path of a file"):
        write_commit(repo, {path: ""}, author=ALICE, when=WHEN, message="bad")
