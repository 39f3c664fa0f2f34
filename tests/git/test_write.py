"""Trees and packs of our own, compared with those of plain git."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from apps.git.merge import new_commit
from apps.git.run import GitError
from apps.git.write import (
    NewFile,
    NewObject,
    PathConflict,
    TreeEntry,
    change_tree,
    pack,
    parse_tree,
    store,
    write_tree,
)
from tests.git.scratch import ALICE, BOB, Scratch, git, git_bytes

NAMES = st.sampled_from([b"a", b"a.b", b"a-b", b"a0", b"b", b"\xc3\xa4", b"\xff", b"A b", b"c\n"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
FILES = st.builds(NewFile, st.binary(max_size=40), st.sampled_from(["100644", "100755"]))
MODES = st.sampled_from([b"40000", b"100644", b"100664", b"120000"])
ENTRIES = st.builds(TreeEntry, MODES, NAMES, st.binary(min_size=20, max_size=20).map(bytes.hex))
HYPOTHESIS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Changes = Mapping[bytes, NewFile | None]


def by_index(repo: Scratch, files: Changes) -> str:
    """The tree of these files that plain git writes by an index."""
    index = Path(repo.path, "index-of-test")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_INDEX_FILE": str(index)}

    def plain(*args: str, stdin: bytes = b"") -> str:
        command = ["git", f"--git-dir={repo.path}", *args]
        done = run(command, input=stdin, env=env, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    plain("read-tree", "--empty")
    lines = b""
    for path, file in files.items():
        assert file is not None
        sha = git(repo.path, "hash-object", "-w", "--stdin", stdin=file.content)
        lines += b"%b %b\t%b\0" % (str(file.mode).encode(), sha, path)
    plain("update-index", "-z", "--index-info", stdin=lines)
    return plain("write-tree")


def clashes(paths: Mapping[bytes, object]) -> bool:
    """Whether one of the paths is below another."""
    return any(path.startswith(other + b"/") for path in paths for other in paths)


@HYPOTHESIS
@given(files=st.dictionaries(PATHS, FILES, max_size=8), data=st.data())
def test_a_changed_tree_is_that_of_plain_git(repo: Scratch, files, data):
    assume(not clashes(files))
    before = by_index(repo, files)
    some = st.sampled_from(sorted(files)) | PATHS if files else PATHS
    changes = data.draw(st.dictionaries(some, st.none() | FILES, max_size=5))
    assume(not clashes({**files, **changes}))
    after = {path: file for path, file in {**files, **changes}.items() if file is not None}
    sha, objects = change_tree(repo, before, changes)
    assert sha == by_index(repo, after)
    store(repo, objects)
    listed = git_bytes(repo.path, "ls-tree", "-r", "-z", sha).split(b"\0")[:-1]
    assert {line.split(b"\t", 1)[1] for line in listed} == after.keys()
    git(repo.path, "fsck", "--strict", sha)


@HYPOTHESIS
@given(st.lists(st.binary(max_size=5000), max_size=6, unique=True))
def test_a_pack_has_all_of_its_objects(repo: Scratch, contents):
    objects = [NewObject("blob", content) for content in contents]
    store(repo, objects)
    for one in objects:
        assert git_bytes(repo.path, "cat-file", one.kind, one.sha) == one.content


@pytest.mark.parametrize("size", [0, 15, 16, 2047, 2048, 262_143, 262_144, 3_000_000])
def test_a_pack_says_how_large_its_objects_are(repo: Scratch, size):
    one = NewObject("blob", b"x" * size)
    store(repo, [one])
    assert git(repo.path, "cat-file", "-s", one.sha) == str(size).encode()


@given(st.lists(ENTRIES, unique_by=lambda one: one.name))
def test_what_is_written_is_parsed_again(entries):
    written = write_tree(entries)
    assert sorted(parse_tree(written), key=str) == sorted(entries, key=str)
    assert write_tree(parse_tree(written)) == written


@pytest.mark.parametrize("content", [b"x", b"100644 a", b"100644 a\0short", b"9 a\0" + b"x" * 20])
def test_a_malformed_tree_is_refused(content):
    with pytest.raises(ValueError, match="malformed"):
        parse_tree(content)


@pytest.mark.parametrize("old", [b"100644", b"100664", b"100755"])
def test_the_mode_of_a_file_stays(repo: Scratch, old):
    blob = repo.store("blob", [b"old"], 3)
    tree = repo.tree(old.decode(), {"a": blob})
    sha, objects = change_tree(repo, tree, {b"a": NewFile(b"new")})
    store(repo, objects)
    assert git_bytes(repo.path, "cat-file", "tree", sha).startswith(old + b" a\0")


@pytest.mark.parametrize(
    "name", [b".git", b".GIT", b"git~1", b"..", b".", b"", b".g\xe2\x80\x8cit"]
)
def test_names_that_git_does_not_allow_are_refused(repo: Scratch, name):
    before = repo.commit({"a": b"1"})
    for path in (name, b"folder/" + name):
        _, objects = change_tree(repo, before, {path: NewFile(b"x")})
        with pytest.raises(GitError):
            store(repo, objects)


@pytest.mark.parametrize("path", [b"file/a", b"link/a", b"folder", b"link", b"module", b"module/a"])
def test_a_path_that_leads_through_a_file_is_refused(repo: Scratch, path):
    blob = repo.store("blob", [b"1"], 1)
    inner = repo.tree("100644", {"a": blob})
    modes = {b"file": b"100644", b"folder": b"40000", b"link": b"120000", b"module": b"160000"}
    entries = [
        TreeEntry(mode, name, inner if name == b"folder" else blob) for name, mode in modes.items()
    ]
    tree = write_tree(entries)
    with pytest.raises(PathConflict):
        change_tree(repo, repo.store("tree", [tree], len(tree)), {path: NewFile(b"x")})


def test_a_large_folder_is_read_by_another_git(repo: Scratch):
    names = {f"file-{number:06}": b"1" for number in range(30_000)}
    before = repo.commit(names)
    sha, objects = change_tree(repo, before, {b"file-000003": None, b"new": NewFile(b"1")})
    assert len(objects) == 2
    store(repo, objects)
    assert len(git_bytes(repo.path, "ls-tree", sha).splitlines()) == 30_000


def test_a_commit_has_its_people_and_is_stored_with_its_tree(repo: Scratch):
    before = repo.commit({"a": b"1"})
    tree, objects = change_tree(repo, before, {b"a": NewFile(b"2")})
    when = dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC)
    content = new_commit(tree, before, person=ALICE, message="Fix a\n", others=[BOB], when=when)
    commit = NewObject("commit", content)
    store(repo, [*objects, commit])
    text = git(repo.path, "log", "-1", "--format=%an|%ce|%P|%B", commit.sha).decode()
    assert text.strip().split("|") == [
        "Alice Archer",
        "alice@example.org",
        before,
        "Fix a\n\nCo-authored-by: Bob Brewer <bob@example.org>",
    ]
    git(repo.path, "fsck", "--strict", commit.sha)


def test_a_pack_without_objects_is_valid(repo: Scratch):
    assert len(pack([])) == 32
    store(repo, [])


def test_a_tree_that_is_missing_or_no_tree_is_an_error(repo: Scratch):
    blob = repo.store("blob", [b"1"], 1)
    for name in ("1" * 40, blob):
        with pytest.raises(GitError):
            change_tree(repo, name, {b"a": None})
