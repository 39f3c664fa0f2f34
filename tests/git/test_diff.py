"""apps/git/diff.py: changes and patches lead from the old files to the new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git import diff
from apps.git.diff import FileChange, Hunk, Line, changes, parse_changes, parse_hunks, patches
from apps.git.run import LIMITS, GitError, GitTimeout, Limits
from tests.git.histories import SUBMODULE, History, branches
from tests.git.scratch import Scratch, git

pytestmark = pytest.mark.once
MIB = 1024 * 1024
Entries = dict[bytes, tuple[str, str]]
"""Path -> mode and blob name."""


def made(folder: str | Path, stream: bytes) -> tuple[Scratch, str, str]:
    """A repository with the branches of a stream, and the heads of `ours` and `theirs`."""
    repo = Scratch(Path(folder) / "repo.git")
    repo.create()
    git(repo.path, "fast-import", "--quiet", stdin=stream)
    ours, theirs = (git(repo.path, "rev-parse", name).decode() for name in ("ours", "theirs"))
    return repo, ours, theirs


def entries_of(repo: Scratch, sha: str) -> Entries:
    entries = {}
    for line in git(repo.path, "ls-tree", "-r", "-z", sha).split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, name = head.decode().split()
        entries[path] = mode, name
    return entries


def content(repo: Scratch, mode: str | None, sha: str | None) -> bytes:
    """The content that git compares: for a submodule a line with its commit."""
    if sha is None:
        return b""
    if mode == SUBMODULE:
        return f"Subproject commit {sha}\n".encode()
    return repo.git("cat-file", "blob", sha).out


def changed(old: Entries, files: Iterable[FileChange]) -> Entries:
    """Apply changes to a tree. Each change must match the tree."""
    files, new = [*files], dict(old)
    for file in files:
        if file.previous_sha is not None:
            place = file.previous_path or file.path
            assert new.pop(place) == (file.previous_mode, file.previous_sha)
    for file in files:
        if file.sha is not None and file.mode is not None:
            assert file.path not in new
            new[file.path] = file.mode, file.sha
    return new


def lines_of(text: bytes) -> list[bytes]:
    *whole, rest = text.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]


def stored(line: Line) -> bytes:
    return line.text + (b"\n" if line.has_newline else b"")


def applied(old: bytes, hunks: Iterable[Hunk]) -> bytes:
    """Apply hunks to a file. Each hunk must match the file."""
    lines, new, at = lines_of(old), list[bytes](), 0
    for hunk in hunks:
        begin = max(at, hunk.old_start - 1 if hunk.old_count else hunk.old_start)
        new += lines[at:begin]
        at = begin + hunk.old_count
        assert [stored(line) for line in hunk.lines if line.sign != "+"] == lines[begin:at]
        came = [stored(line) for line in hunk.lines if line.sign != "-"]
        assert len(came) == hunk.new_count
        assert not came or len(new) == hunk.new_start - 1
        new += came
    return b"".join([*new, *lines[at:]])


def check(repo: Scratch, old: str | None, new: str) -> None:
    """Check that the changes lead from one tree to the other, and the patches from file to file."""
    result = changes(repo, old, new)
    assert changed(entries_of(repo, old) if old else {}, result.files) == entries_of(repo, new)
    assert result.total == len(result.files)
    patch_of = patches(repo, old, new, result.files)
    assert [*patch_of] == [file.path for file in result.files]
    for file in result.files:
        before = content(repo, file.previous_mode, file.previous_sha)
        after = content(repo, file.mode, file.sha)
        patch = patch_of[file.path]
        assert file.is_binary == (b"\0" in before + after)
        if patch is None:
            assert file.is_binary
            assert file.additions is file.deletions is None
        else:
            hunks = parse_hunks(patch)
            assert applied(before, hunks) == after
            signs = [line.sign for hunk in hunks for line in hunk.lines]
            assert (signs.count("+"), signs.count("-")) == (file.additions, file.deletions)
    assert result.additions == sum(file.additions or 0 for file in result.files)
    assert result.deletions == sum(file.deletions or 0 for file in result.files)


@given(branches())
def test_changes_and_patches_lead_from_one_commit_to_the_other(history: History) -> None:
    with TemporaryDirectory() as folder:
        repo, ours, theirs = made(folder, history.stream())
        check(repo, ours, theirs)
        check(repo, None, theirs)


LINES = st.lists(st.sampled_from([b"a", b"b\r", b"-- x", b"\xff", b"", b"@@ -1 +1 @@"]), max_size=9)
TEXTS = st.builds(lambda lines, end: b"\n".join(lines) + end, LINES, st.sampled_from([b"", b"\n"]))
NAMES = st.sampled_from(
    ['quo"te', "tab\t", "new\nline", "back\\slash", "-x", ":(top)x", "é", "a b"]
)


@given(st.dictionaries(NAMES, TEXTS), st.dictionaries(NAMES, TEXTS))
def test_any_lines_under_any_names_are_read(
    old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> None:
    with TemporaryDirectory() as folder:
        repo = Scratch(Path(folder) / "repo.git")
        repo.create()
        check(repo, repo.commit(old), repo.commit(new))


def test_a_file_that_takes_the_place_of_a_folder_is_shown_alone(repo: Scratch) -> None:
    """As a path argument its name would match all files of the folder."""
    blobs = [repo.store("blob", [text], len(text)) for text in (b"1\n", b"2\n")]
    folder = repo.tree("100644", {"one": blobs[0], "two": blobs[1]})
    old = repo.commit_of(repo.tree("40000", {"x": folder}))
    new = repo.commit_of(repo.tree("100644", {"x": blobs[0]}))
    for before, after in ((old, new), (new, old)):
        check(repo, before, after)
        for file in changes(repo, before, after).files:
            alone = patches(repo, before, after, [file])
            whole = patches(repo, before, after, changes(repo, before, after).files)
            assert alone == {file.path: whole[file.path]}


def test_renames_keep_their_pairs_when_a_few_are_asked_for(repo: Scratch) -> None:
    """Given one file alone, git might pair it with a more similar one."""
    text = b"".join(b"line %d\n" % n for n in range(30))
    old = repo.commit({f"old{n}": text + b"%d\n" % n for n in range(6)})
    new = repo.commit({f"new{n}": b"%d\n" % n + text + b"%d\n" % n for n in range(6)})
    files = changes(repo, old, new).files
    assert {file.status for file in files} == {"renamed"}
    whole = patches(repo, old, new, files)
    for n in range(5):
        some = files[n : n + 2]
        assert patches(repo, old, new, some) == {file.path: whole[file.path] for file in some}


def test_lines_that_differ_in_white_space_alone_can_be_left_out(repo: Scratch) -> None:
    same, other = b"a\nb\n", b"a\nc\n"
    before = {"1": same, "2": same, "3": same, "4": same, "5": same + b"x\n" * 30}
    after = {"1": b" a\n b\n", "2": b"a \n d\n", "3": other, "4": b"a\n\tb\n", "new": same}
    old = repo.commit(before)
    new = repo.commit({**after, "moved": same + b"x\n" * 29 + b" x\n"})
    files = changes(repo, old, new).files
    hunks = patches(repo, old, new, files, ignore_space=True)
    lines = {
        path: [line.sign + line.text.decode() for hunk in parse_hunks(patch) for line in hunk.lines]
        for path, patch in hunks.items()
        if patch is not None
    }
    assert lines == {
        b"1": [],
        b"2": [" a ", "-b", "+ d"],
        b"3": [" a", "-b", "+c"],
        b"4": [],
        b"moved": [],
        b"new": ["+a", "+b"],
    }
    assert patches(repo, old, new, files[:1], ignore_space=True) == {b"1": b""}
    assert patches(repo, old, new, files)[b"1"]


def test_what_is_too_large_is_listed_without_a_patch(repo: Scratch) -> None:
    long, broad = b"x\n" * (diff.LINES_MAX + 1), b"x" * (diff.SIDE_MAX + 1)
    small = {"long": b"", "broad": b"x", "fits": b"x" * diff.SIDE_MAX}
    old, new = repo.commit(small), repo.commit({"long": long, "broad": broad, "fits": b""})
    for before, after in ((old, new), (new, old)):
        files = {file.path: file for file in changes(repo, before, after).files}
        assert {path for path, file in files.items() if file.is_too_large} == {b"long", b"broad"}
        hunks = patches(repo, before, after, [*files.values()])
        assert {path for path, patch in hunks.items() if patch is not None} == {b"fits"}


def test_a_path_that_no_command_line_takes_has_no_patch(repo: Scratch) -> None:
    """git stores paths of any length: nested folders need only a few kilobytes."""
    sides = []
    for data in (b"1", b"2"):
        tree = repo.tree("100644", {"f": repo.store("blob", [data], 1)})
        for _ in range(600):
            tree = repo.tree("40000", {"d" * 250: tree})
        sides.append(repo.commit_of(tree))
    old, new = sides
    [file] = changes(repo, old, new).files
    assert len(file.path) > 131_072 and file.is_too_large
    assert patches(repo, old, new, [file]) == {file.path: None}


def test_patches_have_so_many_bytes_together(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = repo.commit({f"{n}": b"%d" % n * 1000 for n in range(9)})
    files = changes(repo, None, new).files
    whole = patches(repo, None, new, files)
    monkeypatch.setattr(diff, "PATCHES_MAX", 7000)
    some = patches(repo, None, new, files)
    paths = [path for path, patch in some.items() if patch is not None]
    assert paths == [b"%d" % n for n in range(len(paths))]
    assert 3 < len(paths) < 7
    assert all(some[path] == whole[path] for path in paths)


def test_wherever_the_room_ends_what_is_shown_is_whole(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut may be within the entries, which git writes before the patches."""
    old = repo.commit({f"m{n}": b"a\n" for n in range(3)})
    new = repo.commit({"new": b"1\n" * 200, **{f"m{n}": b"b\n" for n in range(3)}})
    files = changes(repo, old, new).files
    whole = patches(repo, old, new, files)
    monkeypatch.setattr(diff, "PATCHES_MAX", len(whole[b"new"] or b"") + 300)
    assert patches(repo, old, new, files) == {**dict.fromkeys(whole), b"new": whole[b"new"]}
    for most in range(1, 1500, 120):
        monkeypatch.setattr(diff, "PATCHES_MAX", most)
        some = patches(repo, old, new, files)
        assert all(patch in {None, whole[path]} for path, patch in some.items())


def test_more_files_than_are_listed_are_counted(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = repo.commit({f"{n}": b"a\nb\n" for n in range(7)})
    new = repo.commit({f"{n}": b"a\n" for n in range(7)})
    monkeypatch.setattr(diff, "FILES_MAX", 3)
    result = changes(repo, old, new)
    assert [file.path for file in result.files] == [b"0", b"1", b"2"]
    assert (result.total, result.additions, result.deletions) == (7, 0, 7)


def test_a_large_blob_is_compared_by_its_name_alone(
    repo: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find renames git reads both sides, which exceeds its memory limit."""
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(memory=32 * MIB))
    old = repo.commit_of(repo.tree("100644", {"old": repo.zeros(40)}))
    new = repo.commit_of(repo.tree("100644", {"new": repo.zeros(41)}))
    result = changes(repo, old, new)
    assert [(file.path, file.status) for file in result.files] == [
        (b"new", "added"),
        (b"old", "removed"),
    ]
    assert all(file.is_binary and file.is_too_large for file in result.files)
    assert patches(repo, old, new, result.files) == {b"new": None, b"old": None}


def test_all_of_it_ends_together(repo: Scratch) -> None:
    bomb = repo.commit_of(repo.tree_bomb())
    with pytest.raises(GitTimeout):
        changes(repo.within(0), None, bomb)
    with pytest.raises(GitError):
        changes(repo, None, bomb)


@pytest.mark.parametrize("out", [b":1 2\0", b"1\tx\0", b"x", b"1\t2\t\0a\0", b"1\t2\ta"])
def test_what_is_no_output_of_diff_tree_is_refused(out: bytes) -> None:
    with pytest.raises(GitError):
        parse_changes([out])


@given(st.binary())
def test_any_bytes_are_hunks_or_refused(text: bytes) -> None:
    for patch in (text, b"@@ -1 +1 @@\n" + text):
        try:
            hunks = parse_hunks(patch)
        except ValueError:
            continue
        assert patch.count(b"\n") >= sum(1 + len(hunk.lines) for hunk in hunks)
