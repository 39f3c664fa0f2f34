"""apps/git/exports.py: applying diffs and patches gives the new commit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import pytest
from hypothesis import assume, given

from apps.git import exports
from apps.git.exports import write_diff, write_patches
from apps.git.run import GitTooLarge
from tests.git.histories import History, branches
from tests.git.scratch import Scratch
from tests.git.test_diff import made

pytestmark = pytest.mark.once


def run_git(repo: Scratch, folder: str, *args: str, stdin: bytes = b"") -> str:
    """Run git with its own index and work tree."""
    env = {"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C"}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": str(repo.path), "GIT_WORK_TREE": folder}
    env |= {"GIT_INDEX_FILE": f"{folder}/../index"}
    env |= {
        f"GIT_{role}_{what}": "A" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", "-c", "core.bare=false", *args],
        env=env,
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def text_of(write, repo: Scratch, old: str, new: str) -> bytes:
    with TemporaryFile() as file:
        write(repo, old, new, file)
        file.seek(0)
        return file.read()


@given(branches())
def test_a_diff_applied_to_one_tree_gives_the_other(history: History) -> None:
    """Includes renames, modes, links, submodules, binary files, CRLF and names in any bytes."""
    with TemporaryDirectory() as folder:
        repo, ours, theirs = made(folder, history.stream())
        work = f"{folder}/work"
        os.mkdir(work)
        diff = text_of(write_diff, repo, ours, theirs)
        # git refuses its own diff if a link moves away and a folder takes its place.
        moved = re.findall(rb'^rename from "?(.+?)"?$', diff, re.MULTILINE)
        assume(not any(b"a/%b/" % path in diff for path in moved))
        run_git(repo, work, "read-tree", ours)
        if diff:
            run_git(repo, work, "apply", "--cached", "--whitespace=nowarn", "-", stdin=diff)
        tree = run_git(repo, work, "rev-parse", f"{theirs}^{{tree}}")
        assert run_git(repo, work, "write-tree") == tree


def test_patches_are_the_commits_as_mails(repo: Scratch, tmp_path: Path) -> None:
    base = repo.commit({"a": b"1\n", "b": b"\0\1"})
    one = repo.commit({"a": b"1\r\n2", "b": b"\0\2"}, base, message="Übung\n\nFrom here on.\n")
    side = repo.commit({"a": b"1\n", "b": b"\0\1", "side": b"x\n"}, base, message="side\n")
    merged = repo.commit(
        {"a": b"1\r\n2", "b": b"\0\2", "side": b"x\n"}, one, side, message="merge\n"
    )
    head = repo.commit({"moved": b"1\r\n2", "b": b"\0\2", "side": b"x\n"}, merged, message="move\n")
    mails = text_of(write_patches, repo, base, head)
    assert mails.count(b"\nSubject: [PATCH ") == 3, "a merge is none"
    work = tmp_path / "work"
    work.mkdir()
    repo.update_ref("refs/heads/main", base, "0" * 40)
    run_git(repo, str(work), "checkout", "--quiet", "--force", "--detach", base)
    run_git(repo, str(work), "am", "--quiet", "--keep-cr", stdin=mails)
    tree = run_git(repo, str(work), "rev-parse", f"{head}^{{tree}}")
    assert run_git(repo, str(work), "rev-parse", "HEAD^{tree}") == tree
    subjects = run_git(repo, str(work), "log", "--format=%s", f"{base}..HEAD").splitlines()
    assert sorted(subjects) == sorted(["move", "Übung", "side"])


def test_a_text_that_is_too_large_is_refused(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = repo.commit({}), repo.commit({"a": b"x\n" * 100})
    assert len(text_of(write_diff, repo, old, new)) > 200
    monkeypatch.setattr(exports, "TEXT_MAX", 200)
    for write in (write_diff, write_patches):
        with pytest.raises(GitTooLarge):
            text_of(write, repo, old, new)
        with pytest.raises(ValueError, match="not a full object name"):
            text_of(write, repo, old, "HEAD")
