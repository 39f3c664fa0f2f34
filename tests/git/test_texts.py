"""Diffs as text are what `git apply` and `git am` take."""

from __future__ import annotations

import os
import subprocess
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from apps.git.repo import EMPTY_TREE
from apps.git.run import GitTooLarge
from apps.git.texts import TEXT_MAX, write_diff, write_patches
from tests.git.histories import History, branches
from tests.git.scratch import Scratch, git

pytestmark = pytest.mark.once
KINDS = {
    "kept": b"the same\n",
    "gone": b"".join(b"line %d\n" % n for n in range(20)),
    "crlf": b"one\r\ntwo\r\n",
    "no newline": b"one\ntwo",
    "binary": b"\0\1\2" * 50,
    "m\udce9nu": b"caf\xe9\n",
    'quote "\t': b"1\n",
}
CHANGED = {
    "kept": b"the same\n",
    "moved.sh": KINDS["gone"] + b"and more\n",
    "crlf": b"one\r\nthree\r\n",
    "no newline": b"one\nthree",
    "binary": b"\0\1\2" * 50 + b"\0",
    "m\udce9nu": b"caf\xe9 cr\xe8me\n",
    'quote "\t': b"1\n2",
    "empty": b"",
}


def applied(folder: Path, repo: Scratch, base: str, text: bytes) -> str:
    """The tree that `git apply` makes of this one in an index."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {"GIT_DIR": str(repo.path), "GIT_INDEX_FILE": str(folder / "index")}

    def run(*args: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *args], cwd=folder, env=env, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    run("read-tree", base)
    if text:
        run("apply", "--cached", "--whitespace=nowarn", "-", stdin=text)
    return run("write-tree")


def diff(repo: Scratch, old: str | None, new: str) -> bytes:
    file = BytesIO()
    assert write_diff(repo, old, new, file) == len(file.getvalue())
    return file.getvalue()


def test_of_every_kind_of_change_the_diff_makes_the_other_tree(repo, tmp_path):
    base, head = repo.commit(KINDS), repo.commit(CHANGED)
    tree = git(repo.path, "rev-parse", f"{head}^{{tree}}").decode()
    text = diff(repo, base, head)
    assert b"rename from gone" in text and b"GIT binary patch" in text
    assert applied(tmp_path, repo, base, text) == tree
    assert applied(tmp_path, repo, EMPTY_TREE, diff(repo, None, head)) == tree


@given(branches())
def test_of_any_history_the_diff_since_the_merge_base_makes_the_tree_of_the_head(history: History):
    with TemporaryDirectory() as name:
        repo = Scratch(Path(name) / "repo.git")
        repo.create()
        git(repo.path, "fast-import", "--quiet", stdin=history.stream())
        target, head = (repo.ref(f"refs/heads/{side}") or "" for side in ("ours", "theirs"))
        base = repo.merge_base(target, head)
        tree = git(repo.path, "rev-parse", f"{head}^{{tree}}").decode()
        text = diff(repo, base, head)
        assert applied(Path(name), repo, base or EMPTY_TREE, text) == tree


def test_the_mails_make_the_same_commits(repo, tmp_path):
    base = repo.commit(KINDS)
    one = repo.commit(CHANGED, base, message="Größe\n\nA body,\nof two lines.")
    same = repo.commit(CHANGED, one, message="nothing")
    two = repo.commit({**CHANGED, "kept": b"other\n"}, same, message="another")
    merge = repo.commit({**CHANGED, "kept": b"other\n"}, two, base, message="a merge")
    file = BytesIO()
    assert write_patches(repo, [one, same, two, merge], file) == len(file.getvalue())
    clone = tmp_path / "clone"
    git(repo.path, "update-ref", "refs/heads/main", base)
    subprocess.run(["git", "clone", "--quiet", str(repo.path), str(clone)], check=True)
    person = {"GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.org"}
    subprocess.run(
        ["git", "am", "--quiet", "--keep-cr"],
        cwd=clone,
        env={**os.environ, **person},
        input=file.getvalue(),
        check=True,
    )
    made = git(clone / ".git", "log", "--reverse", "--format=%T %an %ae %at %s", f"{base}..")
    trees = [git(repo.path, "rev-parse", f"{sha}^{{tree}}").decode() for sha in (one, two)]
    who = "Alice Archer alice@example.org 1700000000"
    assert made.decode() == f"{trees[0]} {who} Größe\n{trees[1]} {who} another"


def test_what_is_too_large_is_not_written_to_its_end(repo):
    line = b"x" * 1023 + b"\n"
    files = {"a": b"".join(line for _ in range(TEXT_MAX // 1024 + 1))}
    with pytest.raises(GitTooLarge):
        diff(repo, None, repo.commit(files))


def test_only_full_names_reach_git(repo):
    for wrong in ("HEAD", "--output=x", "1" * 39):
        with pytest.raises(ValueError, match="no full object names"):
            diff(repo, wrong, "1" * 40)
        with pytest.raises(ValueError, match="no full object names"):
            write_patches(repo, [wrong], BytesIO())
