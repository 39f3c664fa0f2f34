"""apps/git/tree.py: a git that stays reads a file of a commit like `ls-tree` and `cat-file` do."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from apps.git import run
from apps.git.run import GitError
from apps.git.tree import File, commits_of, entry_at, entry_by_ls_tree, file_at
from tests.browse.code import LINK, SCRIPT, SUBMODULE, Code

pytestmark = pytest.mark.once
ODD = [b"a\nb", b"caf\xe9", b"-x", b":(top)x", b"*", b" a b\t", b"%00", b'"', b"x\r", b"y ", b"a:b"]
ODD += [b"1 missing", b"^{tree}", b"100644 a", b"@{1}", b"{a", b"[ab]", b"1" * 40]


@pytest.fixture
def code(tmp_path: Path) -> Code:
    code = Code(tmp_path / "code.git")
    code.create()
    return code


def ask(code: Code, name: str, path: bytes, most: int = 1000) -> File:
    return file_at(code, name, path, most=most, start=3)


def test_a_file_is_found_by_its_bytes_with_its_content_by_a_git_that_stays(code):
    files = {name: b"at " + name for name in ODD} | {b"d/" + name: b"below" for name in ODD}
    commit = code.commit_with(files)
    assert commits_of(code, commit) == [commit]  # starts it
    for path, content in files.items():
        before = run.spawned
        file = ask(code, commit, path)
        assert run.spawned == before
        assert entry_at(code, commit, path) == entry_by_ls_tree(code, commit, path) == file.entry
        assert file == File(commit, file.entry, content)
        assert ask(code, commit, path + b"/x") == File(commit)
    for absent in (b"a", b"?", b"d/d", b":/", b"a\nb\n", b"X" * 4096, b"no/thing", b"a\nb missing"):
        assert ask(code, commit, absent) == File(commit)


def test_what_has_the_same_content_has_its_own_mode(code):
    """A name may be the end of another name, or follow bytes that look like its entry."""
    files = {b"f": b"f", b"s": (SCRIPT, b"f"), b"l": (LINK, b"f"), b"m": (SUBMODULE, b"1" * 40)}
    files |= {b"a 120000 f": b"f", b"m120000 s": b"f"}
    files |= {b"%d" % number: (SCRIPT, b"%d" % number) for number in range(200)}
    commit = code.commit_with(files | {b"d/x": b"", b"xf": (SCRIPT, b"f")})
    for path in (*files, b"d", b"xf"):
        file = ask(code, commit, path)
        assert file.entry == entry_at(code, commit, path) == entry_by_ls_tree(code, commit, path)
        assert bool(file.content) == (path not in {b"m", b"d"})
    itself = code.commit_with({b"m": (SUBMODULE, commit.encode())})
    file = ask(code, itself, b"m")
    assert file.entry is not None and file.entry.kind == "submodule"


@pytest.mark.parametrize("mode", ["0100644", "100664", "104755", "0120000", "102644"])
def test_a_mode_that_git_takes_for_another_is_that_one(code, mode):
    """A push may contain them: old programs wrote leading zeros or permission bits."""
    commit = code.commit_with({b"a": (mode, b"x")})
    assert ask(code, commit, b"a") == File(commit, entry_by_ls_tree(code, commit, b"a"), b"x")


def test_a_large_file_is_read_as_far_as_is_asked_for(code):
    commit = code.commit_of(code.tree("100644", {"zeros": code.zeros(64)}))
    file = ask(code, commit, b"zeros")
    assert file.entry is not None
    assert (file.entry.size, file.content) == (64 * 1024 * 1024, bytes(3))


def test_what_is_in_a_large_folder_is_found_without_holding_all_of_it(code):
    blob, below = code.store("blob", [b"x" * 9], 9), code.tree_with({b"f": b"1"})
    names = [f"{number:06}" for number in range(300_000)]
    entries = dict.fromkeys(names, ("100644", blob))
    entries |= {"d": ("40000", below), "m": ("160000", "1" * 40)}
    body = b"".join(
        f"{mode} {name}\0".encode() + bytes.fromhex(sha) for name, (mode, sha) in entries.items()
    )
    commit = code.commit_of(code.store("tree", [body], len(body)))
    tracemalloc.start()
    try:
        for path in (names[-1].encode(), b"d", b"m", b"none", b"d/f"):
            content = {names[-1].encode(): b"x" * 9, b"d/f": b"1"}.get(path, b"")
            assert ask(code, commit, path) == File(
                commit, entry_by_ls_tree(code, commit, path), content
            )
        assert ask(code, commit, names[0].encode(), most=8).content == b"xxx"
        assert tracemalloc.get_traced_memory()[1] < len(body) // 2
    finally:
        tracemalloc.stop()


def test_a_tag_leads_to_its_commit_and_nothing_else_is_one(code):
    commit = code.commit_with({b"a": b"1"})
    tree = code.tree_with({b"a": b"1"})
    tag = code.tag_of(commit)
    assert ask(code, code.tag_of(tag, "tag"), b"a").commit == commit
    for name in (tree, code.tag_of(tree, "tree"), "1" * 40):
        assert ask(code, name, b"a") == File(None)
    for name in ("main", "A" * 40, "1" * 40 + "\n"):
        with pytest.raises(ValueError, match="full object name"):
            ask(code, name, b"a")


@pytest.mark.parametrize("damage", ["missing", "broken"])
@pytest.mark.parametrize("what", ["blob", "tree", "commit"])
def test_what_is_damaged_is_an_error_of_git(code, what, damage):
    blob, tree = code.store("blob", [b"1"], 1), code.tree_with({b"a": b"1"})
    commit = code.commit_with({b"d/a": b"1"})
    sha = {"blob": blob, "tree": tree, "commit": commit}[what]
    path = code.path / "objects" / sha[:2] / sha[2:]
    path.chmod(0o644)
    if damage == "missing":
        path.unlink()
        if what == "commit":
            assert ask(code, commit, b"d/a") == File(None)
            return
    else:
        path.write_bytes(path.read_bytes()[:10] + b"broken")
    with pytest.raises(GitError):
        ask(code, commit, b"d/a")
