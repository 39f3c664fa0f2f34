"""apps/git/tree.py: trees and files with names of any bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git import run
from apps.git.run import LIMITS, GitError, GitTimeout, Limits
from apps.git.tree import (
    ENTRIES_MAX,
    Entry,
    commits_of,
    entry_at,
    is_signed,
    list_tree,
    parse_entry,
    read_blob,
    read_blobs,
    start_of_blob,
    stream_blob,
)
from tests.browse.code import FILE, LINK, SCRIPT, SUBMODULE, Code

pytestmark = pytest.mark.once
MIB = 1024 * 1024
SHAS = st.text("0123456789abcdef", min_size=40, max_size=40)
MODES = st.sampled_from([FILE, SCRIPT, LINK, SUBMODULE, "040000", "100664"])
PATHS = st.binary(min_size=1).map(lambda path: path.replace(b"\0", b"\n"))
ENTRIES = st.builds(Entry, PATHS, MODES, SHAS, st.none() | st.integers(0, 2**63))
ODD = [b"a\nb", b"caf\xe9", b"-x", b"--output=x", b":(top)x", b"*", b"a b\t", b"%00", b'"']


@pytest.fixture
def code(tmp_path: Path) -> Code:
    code = Code(tmp_path / "code.git")
    code.create()
    return code


@given(ENTRIES)
def test_an_entry_is_read_whatever_its_path(entry):
    size = b"-" if entry.size is None else b"%d" % entry.size
    line = b"%b blob %b" % (entry.mode.encode(), entry.sha.encode())
    assert parse_entry(b"%b %7b\t%b" % (line, size, entry.path)) == entry
    assert parse_entry(b"%b\t%b" % (line, entry.path)).size is None


@given(st.binary())
def test_a_line_of_another_form_is_an_error_of_git(line):
    with pytest.raises(GitError, match="unexpected output"):
        parse_entry(line)


def test_a_path_is_found_by_its_bytes_and_by_nothing_that_looks_like_them(code):
    files = {name: name for name in ODD} | {b"d/" + name: b"below" for name in ODD}
    commit = code.commit_with(files)
    for name in ODD:
        entry = entry_at(code, commit, name)
        assert entry is not None
        assert (entry.path, entry.mode, entry.size) == (name, FILE, len(name))
        assert read_blob(code, entry.sha) == name
        assert entry_at(code, commit, b"d/" + name) is not None
        assert entry_at(code, commit, name + b"/x") is None
    for absent in (b"a", b"?", b"d/d", b"d/", b":/", b":(glob)**", b"a\nb\n", b"X" * 4096):
        assert entry_at(code, commit, absent) is None


def test_each_kind_of_thing_says_what_it_is(code):
    commit = code.commit_with(
        {b"f": b"12", b"s": (SCRIPT, b""), b"l": (LINK, b"f"), b"m": (SUBMODULE, b"1" * 40)}
        | {b"d/x": b"", b"d.x": b""}
    )
    kinds = {}
    for name in (b"f", b"s", b"l", b"m", b"d"):
        entry = entry_at(code, commit, name)
        assert entry is not None
        kinds[name] = entry.kind, entry.size
    assert kinds == {
        b"f": ("file", 2),
        b"s": ("file", 0),
        b"l": ("symlink", 1),
        b"m": ("submodule", None),
        b"d": ("directory", None),
    }
    assert entry_at(code, commit, b"l/x") is None  # links are not followed


def test_a_folder_is_listed_in_parts_with_and_without_what_is_below(code):
    commit = code.commit_with({b"a/b/c": b"1", b"a.x": b"22", b"a/z": b"", b"caf\xe9": b""})
    whole = [b"a.x", b"a", b"caf\xe9"]
    deep = [b"a.x", b"a", b"a/b", b"a/b/c", b"a/z", b"caf\xe9"]
    for recursive, paths in ((False, whole), (True, deep)):
        every = list_tree(code, commit, start=0, stop=99, recursive=recursive, sizes=True)
        assert [entry.path for entry in every.entries] == paths
        assert not every.truncated
        for start in range(len(paths) + 1):
            part = list_tree(code, commit, start=start, stop=start + 2, recursive=recursive)
            assert [entry.path for entry in part.entries] == paths[start : start + 2]
            assert {entry.size for entry in part.entries} <= {None}
    assert [entry.size for entry in every.entries] == [2, None, None, 1, 0, 0]
    inner = entry_at(code, commit, b"a")
    assert inner is not None
    below = list_tree(code, inner.sha, start=0, stop=9, below=b"a")
    assert [entry.path for entry in below.entries] == [b"a/b", b"a/z"]


def test_the_list_of_a_bomb_is_cut(code):
    commit = code.commit_of(code.tree_bomb())
    listing = list_tree(code, commit, start=ENTRIES_MAX - 2, stop=ENTRIES_MAX + 9, recursive=True)
    assert (len(listing.entries), listing.truncated) == (2, True)
    assert list_tree(code, commit, start=0, stop=1, recursive=True, sizes=True).truncated
    assert list_tree(code, commit, start=10**9, stop=10**9 + 31, recursive=True).entries == ()
    flat = list_tree(code, commit, start=0, stop=99)
    assert (len(flat.entries), flat.truncated) == (12, False)


def test_a_list_with_too_many_bytes_is_cut(code, monkeypatch):
    commit = code.commit_with({b"%05d" % n + b"x" * 200: b"" for n in range(3000)})
    monkeypatch.setitem(LIMITS, "ls-tree", Limits(output=200_000))
    listing = list_tree(code, commit, start=0, stop=2, recursive=True)
    assert (len(listing.entries), listing.truncated) == (2, True)


def test_a_list_that_takes_too_long_is_a_timeout(code, monkeypatch):
    commit = code.commit_of(code.tree_bomb())
    monkeypatch.setitem(LIMITS, "ls-tree", Limits(deadline=0))
    with pytest.raises(GitTimeout):
        list_tree(code, commit, start=0, stop=1, recursive=True)


def test_a_commit_is_found_through_its_tags_alone(code):
    commit = code.commit_with({b"a": b"1"})
    tree, blob = code.tree_with({b"a": b"1"}), code.store("blob", [b"1"], 1)
    tag = code.tag_of(commit)
    others = [tree, blob, code.tag_of(tree, "tree"), code.tag_of(blob, "blob"), "1" * 40]
    before = run.spawned
    commits = commits_of(code, commit, *others, code.tag_of(tag, "tag"))
    assert commits == [commit, *[None] * 5, commit]
    assert run.spawned == before + 1


def test_only_the_beginning_of_a_blob_is_read(code):
    blob = code.zeros(64)
    assert start_of_blob(code, blob, 8000) == bytes(8000)
    assert start_of_blob(code, code.store("blob", [b"abc"], 3), 8000) == b"abc"
    with pytest.raises(GitError, match="wrote more"):
        read_blob(code, blob)


def test_a_blob_of_any_size_is_streamed(code):
    with stream_blob(code, code.zeros(40)) as process:
        output = process.stdout
        assert output is not None
        sizes = iter(lambda: len(output.read(MIB)), 0)
        assert sum(sizes) == 40 * MIB
    assert process.returncode == 0


def test_a_signature_is_a_header_and_no_text(code):
    signed = code.commit_with({}, header="gpgsig -----BEGIN PGP SIGNATURE-----\n x\n")
    newer = code.commit_with({}, header="gpgsig-sha256 x")
    for fake in ("", "gpgsigs x", "mergetag x\n gpgsig y"):
        assert not is_signed(code, code.commit_with({}, header=fake, message="a\n\ngpgsig x\n\n"))
    assert is_signed(code, signed)
    assert is_signed(code, newer)
    for other in (code.tag_of(signed), code.tree_with({}), "1" * 40):
        assert is_signed(code, other) is None


def test_nothing_but_full_names_reach_git(code):
    before = run.spawned
    for text in ("main", "--all", "A" * 40, "1" * 39, "1" * 40 + "\n"):
        for ask in (
            lambda text: commits_of(code, text),
            lambda text: entry_at(code, text, b"a"),
            lambda text: list_tree(code, text, start=0, stop=1),
            lambda text: read_blob(code, text),
            lambda text: start_of_blob(code, text, 1),
            lambda text: is_signed(code, text),
            lambda text: stream_blob(code, text),
        ):
            with pytest.raises(ValueError, match="full object name"):
                ask(text)
    assert run.spawned == before


def test_several_blobs_are_read_at_once_as_far_as_they_fit(code):
    contents = [b"", b"1\n", b"a\nblob 3\n\0", b"12345", b"x" * 2000]
    names = [code.store("blob", [content], len(content)) for content in contents]
    folder = code.tree_with({b"a": b"1"})
    shas = [*names, *names, folder, "1" * 40]
    before = run.spawned
    blobs = read_blobs(code, shas, most=1000, together=10_000)
    assert blobs == dict(zip(names[:4], contents[:4], strict=True))
    assert run.spawned - before == 1
    assert read_blobs(code, names, most=1000, together=3) == dict(
        zip(names[:2], contents, strict=False)
    )
    assert read_blobs(code, [], most=1, together=1) == read_blobs(
        code, [folder], most=9, together=9
    )
    with pytest.raises(ValueError, match="full object name"):
        read_blobs(code, ["HEAD"], most=1, together=1)
