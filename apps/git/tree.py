"""Trees as git lists them, and the bytes of files. Trees and blobs go by full names alone."""

import os
import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError, GitProcess, GitTooLarge, Result, spawn_blob

ENTRIES_MAX: Final = 100_000
"""A list is cut after so many: 48 KB of hostile trees name ten thousand million files."""
KINDS: Final = {"040000": "directory", "120000": "symlink", "160000": "submodule"}
"""By mode; whatever else there is, is a file."""
_LINE: Final = re.compile(rb"(\d{6}) [a-z]+ ([0-9a-f]{40})(?: +(\d+|-|BAD))?\t(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree has at a path. `size` is in bytes; None for what has none, or was not asked."""

    path: bytes
    mode: str
    sha: str
    size: int | None = None

    @property
    def kind(self) -> str:
        """`file`, `directory`, `symlink` or `submodule`."""
        return KINDS.get(self.mode, "file")


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of a list of entries. `truncated`: the whole list ends before the tree does."""

    entries: tuple[Entry, ...]
    truncated: bool


def commits_of(repo: GitRepo, *shas: str) -> list[str | None]:
    """The commits of these names, or those that the tags of these names lead to; else None."""
    options, stdin = ask_for_commits(*shas)
    return read_commits(repo.git("cat-file", *options, stdin=stdin))


def ask_for_commits(*shas: str) -> tuple[list[str], bytes]:
    """The options of `cat-file` and its input that ask for these commits."""
    stdin = "".join(f"{_sha(sha)}^{{commit}}\n" for sha in shas)
    return ["--batch-check=%(objectname)"], stdin.encode()


def read_commits(result: Result) -> list[str | None]:
    """What it then tells: the commit of each name, None for what leads to none."""
    return [word if is_sha(word) else None for word in result.out.decode().splitlines()]


def entry_at(repo: GitRepo, commit: str, path: bytes) -> Entry | None:
    """What a commit has at a path, which is not empty and has no `..`; links are not followed."""
    out = repo.git("ls-tree", "-z", "--long", _sha(commit), "--", os.fsdecode(path)).out
    entries = (parse_entry(line) for line in out.split(b"\0")[:-1])
    return next((entry for entry in entries if entry.path == path), None)


def list_tree(
    repo: GitRepo,
    tree: str,
    *,
    start: int,
    stop: int,
    recursive: bool = False,
    sizes: bool = False,
    below: bytes = b"",
) -> Listing:
    """The entries of a tree or of a commit's from `start` to before `stop`, in git's order.

    `recursive`: of all folders below it too, each before what it holds. `below` is where the tree
    is, and stands before each path. Whatever the tree, no more of it is kept than what is asked
    for, and no more is read than `ENTRIES_MAX`.
    """
    options = ["-r", "-t"] if recursive else []
    found = _listing(repo, [*options, _sha(tree)], start, stop, sizes=sizes)
    prefix = below + b"/" if below else b""
    entries = (replace(one, path=prefix + one.path) for one in found.entries)
    return replace(found, entries=tuple(entries))


def list_folder(
    repo: GitRepo, commit: str, path: bytes, *, start: int, stop: int, sizes: bool = False
) -> Listing:
    """The same of the folder that a commit has at a path: no entries for what is no folder."""
    wanted = [_sha(commit), "--", os.fsdecode(path + b"/")]
    found = _listing(repo, wanted, start, stop, sizes=sizes)
    if found.entries and found.entries[0].path == path:  # a submodule
        return Listing((), truncated=False)
    return found


def _listing(repo: GitRepo, wanted: list[str], start: int, stop: int, *, sizes: bool) -> Listing:
    found: list[Entry] = []
    truncated = False
    try:
        with closing(repo.read("ls-tree", "-z", *wanted)) as pieces:
            truncated = _collect(pieces, found, start, min(stop, ENTRIES_MAX))
    except GitTooLarge:
        truncated = True
    if sizes:  # `--long` would look at all blobs that there are
        found = _with_sizes(repo, found)
    return Listing(tuple(found), truncated)


def _with_sizes(repo: GitRepo, entries: list[Entry]) -> list[Entry]:
    blobs = [*dict.fromkeys(one.sha for one in entries if one.kind in {"file", "symlink"})]
    if not blobs:
        return entries
    asked = "\n".join([*blobs, ""]).encode()
    out = repo.git("cat-file", "--batch-check=%(objectsize)", stdin=asked).out
    said = dict(zip(blobs, out.split(b"\n"), strict=False))
    # A list says what it can: of an object that is missing there is no size.
    sizes = {sha: int(size) for sha, size in said.items() if size.isdigit()}
    return [replace(one, size=sizes[one.sha]) if one.sha in sizes else one for one in entries]


def _collect(pieces: Iterable[bytes], found: list[Entry], start: int, stop: int) -> bool:
    """Add the entries of these places, and tell whether there are more than `ENTRIES_MAX`."""
    seen, rest = 0, bytearray()
    for piece in pieces:
        rest += piece
        if b"\0" not in piece:
            continue
        *lines, last = bytes(rest).split(b"\0")
        rest = bytearray(last)
        found += map(parse_entry, lines[max(0, start - seen) : max(0, stop - seen)])
        seen += len(lines)
        if seen > ENTRIES_MAX:
            return True
    return False


def parse_entry(line: bytes) -> Entry:
    """A line of `ls-tree -z`, with or without `--long`. `GitError`: it has another form."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise GitError("git ls-tree wrote something else than entries")
    mode, sha, size, path = parts.groups()
    return Entry(path, mode.decode(), sha.decode(), int(size) if size and size.isdigit() else None)


def read_blob(repo: GitRepo, sha: str) -> bytes:
    """All of a blob; `GitTooLarge` when it is larger than git may write at once."""
    return repo.git("cat-file", "blob", _sha(sha)).out


def start_of_blob(repo: GitRepo, sha: str, most: int) -> bytes:
    """Its first `most` bytes, or all when it has fewer. Only these are read."""
    kept = bytearray()
    with closing(repo.read("cat-file", "blob", _sha(sha))) as pieces:
        for piece in pieces:
            kept += piece
            if len(kept) >= most:
                break
    return bytes(kept[:most])


def stream_blob(repo: GitRepo, sha: str) -> GitProcess:
    """Start the git that writes a blob of any size, see `run.spawn_blob`."""
    return spawn_blob(repo.path, _sha(sha))


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"no full object name: {text!r}")
    return text


def read_blobs(repo: GitRepo, shas: Iterable[str], *, most: int, together: int) -> dict[str, bytes]:
    """Those of these blobs that have at most so many bytes, as far as all have `together`."""
    wanted = [*dict.fromkeys(map(_sha, shas))]
    if not wanted:
        return {}
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
    out = repo.git("cat-file", form, stdin="\n".join([*wanted, ""]).encode()).out.decode()
    small = []
    for line in out.splitlines():
        sha, kind, *size = line.split(" ")
        if kind == "blob" and int(size[0]) <= min(most, together):
            together -= int(size[0])
            small.append(sha)
    if not small:
        return {}
    stdin = "\n".join([*small, ""]).encode()
    return _contents(repo.git("cat-file", "--batch", stdin=stdin).out)


def _contents(out: bytes) -> dict[str, bytes]:
    """What `cat-file --batch` wrote, by name."""
    found, at = {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        sha, _, size = out[at:end].decode().split(" ")
        at = end + 1 + int(size)
        found[sha] = out[end + 1 : at]
        at += 1
    return found
