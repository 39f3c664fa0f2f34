"""Reads trees and files. Trees and blobs are named by full object names only."""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias

from apps.git.batch import CONTENT_MAX, Batch, Header
from apps.git.repo import GitRepo, check_shas, full_sha
from apps.git.run import GitError, GitProcess, GitTooLarge, spawn_blob

ENTRIES_MAX: Final = 100_000
"""Most entries of a list; longer ones are cut. 48 KB of hostile trees can name 10^10 files."""
KINDS: Final = {"040000": "directory", "120000": "symlink", "160000": "submodule"}
"""Kinds by mode. All other modes are files."""
_LINE: Final = re.compile(rb"(\d{6}) [a-z]+ ([0-9a-f]{40})(?: +(\d+|-|BAD))?\t(.+)", re.DOTALL)
_FOLDER_MAX: Final = 1024 * 1024
"""Bytes of a folder whose entries Python searches. git itself searches larger ones, which may have
up to 32 MiB: reading them through a pipe would take longer.
"""
_HEADER_MAX: Final = 1024 * 1024
_ENTRY: Final = re.compile(rb"([0-7]{1,7}) ([^\0]+)\0(.{20})", re.DOTALL)

_Parts: TypeAlias = tuple[bytes, bytes, bytes]
"""The mode, the name and the object name of an entry, as they stand in a tree."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tree. `size` is in bytes, None if the entry has no size or it was not read."""

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
    """A slice of the entries of a tree. `truncated`: the tree has more than `ENTRIES_MAX`."""

    entries: tuple[Entry, ...]
    truncated: bool


def commits_of(repo: GitRepo, *shas: str) -> list[str | None]:
    """The commits of these full names of commits and tags; None for a name of no commit."""
    names = [f"{full_sha(sha)}^{{commit}}".encode() for sha in shas]
    headers = repo.ask(lambda git: git.info(*names))
    return [header.sha if header else None for header in headers]


def entry_at(repo: GitRepo, commit: str, path: bytes) -> Entry | None:
    """The entry of a commit at a path, which is not empty and has no `..`. Follows no links."""
    name = full_sha(commit)
    place = repo.ask(lambda git: _find(git, name, path))
    return place.entry if place.is_known else entry_by_ls_tree(repo, commit, path)


def entry_by_ls_tree(repo: GitRepo, commit: str, path: bytes) -> Entry | None:
    """`entry_at` by a git of its own, which also searches large or damaged folders."""
    out = repo.git("ls-tree", "-z", "--long", full_sha(commit), "--", os.fsdecode(path)).out
    entries = (parse_entry(line) for line in out.split(b"\0")[:-1])
    return next((entry for entry in entries if entry.path == path), None)


@dataclass(frozen=True, slots=True)
class _Place:
    """The entry at a path of a commit, and its object. `commit` is None if there is no commit.
    `is_known`: no other git has to look.
    """

    commit: str | None
    entry: Entry | None = None
    header: Header | None = None
    is_known: bool = True


def _find(git: Batch, name: str, path: bytes) -> _Place:
    """Find the entry at a path of a commit, or of the commit of a tag."""
    root, (folder, _, last) = name.encode(), path.rpartition(b"/")
    names = (b"%b^{commit}" % root, b"%b:%b" % (root, folder), b"%b:%b" % (root, path))
    commit, around, header = git.info(*names)
    if commit is None:
        return _Place(None)
    entries = _tree_parts(git, around)
    if entries is None:
        return _Place(commit.sha, is_known=False)
    # Without an object of this name, the entry may be a submodule, or its object is missing.
    named = [parts for parts in entries if parts[1] == last]
    if not named and header is None:
        return _Place(commit.sha)
    same = [parts for parts in named if header is None or parts[2].hex() == header.sha]
    entry = replace(_entry(same[0]), path=path) if same else None
    if entry and entry.kind == "submodule":
        return _Place(commit.sha, entry)
    if entry and header and header.kind == ("tree" if entry.kind == "directory" else "blob"):
        size = header.size if header.kind == "blob" else None
        return _Place(commit.sha, replace(entry, size=size), header)
    return _Place(commit.sha, is_known=False)


def _tree_parts(git: Batch, header: Header | None) -> list[_Parts] | None:
    """The entries of a tree; None if it is missing, large, malformed or no tree."""
    if header is None or header.kind != "tree" or header.size > _FOLDER_MAX:
        return None
    [raw] = git.contents(header)
    entries: list[_Parts] = _ENTRY.findall(raw)
    size = sum(map(len, chain.from_iterable(entries))) + 2 * len(entries)
    return entries if size == len(raw) else None


def _entry(parts: _Parts) -> Entry:
    mode, name, sha = parts
    return Entry(name, _mode(int(mode, 8)), sha.hex())


def _mode(mode: int) -> str:
    """The mode that git takes this one for. Some old programs wrote others."""
    if stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return "120000" if stat.S_ISLNK(mode) else "040000" if stat.S_ISDIR(mode) else "160000"


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
    """The entries `start` to `stop` (exclusive) of a tree or of a commit's tree, in git's order.

    `recursive`: also the entries of subfolders, each folder before its entries. `below` is the path
    of the tree, and each entry's path begins with it. Only the requested entries are stored, and at
    most `ENTRIES_MAX` are read.
    """
    name = full_sha(tree)
    listing = None
    if not recursive:
        listing = repo.ask(lambda git: _list_small(git, name, start, stop, sizes=sizes))
    if listing is None:
        options = ["-r", "-t"] if recursive else []
        listing = _listing(repo, [*options, name], start, stop, sizes=sizes)
    prefix = below + b"/" if below else b""
    entries = (replace(entry, path=prefix + entry.path) for entry in listing.entries)
    return replace(listing, entries=tuple(entries))


def list_folder(
    repo: GitRepo, commit: str, path: bytes, *, start: int, stop: int, sizes: bool = False
) -> Listing:
    """`list_tree` for the folder of a commit at a path. No entries if there is no folder."""
    name = full_sha(commit)
    place = repo.ask(lambda git: _find(git, name, path))
    if place.is_known:
        if place.entry is None or place.entry.kind != "directory":
            return Listing((), truncated=False)
        tree = place.entry.sha
        return list_tree(repo, tree, start=start, stop=stop, sizes=sizes, below=path)
    arguments = [name, "--", os.fsdecode(path + b"/")]
    listing = _listing(repo, arguments, start, stop, sizes=sizes)
    if listing.entries and listing.entries[0].path == path:  # a submodule
        return Listing((), truncated=False)
    return listing


def _list_small(git: Batch, tree: str, start: int, stop: int, *, sizes: bool) -> Listing | None:
    """A slice of the entries of a tree, or of a commit's; None if it is large or damaged."""
    parts = _tree_parts(git, *git.info(f"{tree}:".encode()))
    if parts is None:
        return None
    entries = [*map(_entry, parts[start:stop])]
    return Listing(tuple(_measured(git, entries) if sizes else entries), truncated=False)


def _listing(repo: GitRepo, arguments: list[str], start: int, stop: int, *, sizes: bool) -> Listing:
    entries: list[Entry] = []
    truncated = False
    try:
        with closing(repo.read("ls-tree", "-z", *arguments)) as pieces:
            truncated = _collect(pieces, entries, start, min(stop, ENTRIES_MAX))
    except GitTooLarge:
        truncated = True
    if sizes:  # `--long` would read the sizes of all entries
        chosen = entries
        entries = repo.ask(lambda git: _measured(git, chosen))
    return Listing(tuple(entries), truncated)


def _measured(git: Batch, entries: list[Entry]) -> list[Entry]:
    """The same entries with the sizes of files and symlinks. A missing object has no size."""
    sized = {"file", "symlink"}
    blobs = [*dict.fromkeys(entry.sha for entry in entries if entry.kind in sized)]
    headers = git.info(*(sha.encode() for sha in blobs))
    sizes = {header.sha: header.size for header in headers if header}
    return [
        replace(entry, size=sizes.get(entry.sha)) if entry.kind in sized else entry
        for entry in entries
    ]


def _collect(pieces: Iterable[bytes], entries: list[Entry], start: int, stop: int) -> bool:
    """Append the entries `start` to `stop`; return whether there are more than `ENTRIES_MAX`."""
    seen, rest = 0, bytearray()
    for piece in pieces:
        rest += piece
        if b"\0" not in piece:
            continue
        *lines, last = bytes(rest).split(b"\0")
        rest = bytearray(last)
        entries += map(parse_entry, lines[max(0, start - seen) : max(0, stop - seen)])
        seen += len(lines)
        if seen > ENTRIES_MAX:
            return True
    return False


def parse_entry(line: bytes) -> Entry:
    """Parse a line of `ls-tree -z`, with or without `--long`; `GitError` if it is malformed."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise GitError("unexpected output of git ls-tree")
    mode, sha, size, path = parts.groups()
    return Entry(path, mode.decode(), sha.decode(), int(size) if size and size.isdigit() else None)


def read_blob(repo: GitRepo, sha: str) -> bytes:
    """The bytes of a blob; `GitTooLarge` if it exceeds the output limit of `cat-file`."""
    content = _small(repo, "blob", sha)
    return repo.git("cat-file", "blob", sha).out if content is None else content


def start_of_blob(repo: GitRepo, sha: str, most: int) -> bytes:
    """The first `most` bytes of a blob. Of a large one, the rest is not read."""
    content = _small(repo, "blob", sha)
    return _start_of(repo, "blob", sha, most) if content is None else content[:most]


def _small(repo: GitRepo, kind: str, sha: str) -> bytes | None:
    """The bytes of an object; None if it is missing, large or of another kind."""
    name = full_sha(sha).encode()

    def read(git: Batch) -> bytes | None:
        [header] = git.info(name)
        if header is None or header.kind != kind or header.size > CONTENT_MAX:
            return None
        return git.contents(header)[0]

    return repo.ask(read)


def _start_of(repo: GitRepo, kind: str, sha: str, most: int) -> bytes:
    content = bytearray()
    with closing(repo.read("cat-file", kind, sha)) as pieces:
        for piece in pieces:
            content += piece
            if len(content) >= most:
                break
    return bytes(content[:most])


def stream_blob(repo: GitRepo, sha: str) -> GitProcess:
    """Start a git that writes a blob of any size; see `run.spawn_blob`."""
    return spawn_blob(repo.path, full_sha(sha))


def read_blobs(repo: GitRepo, shas: Iterable[str], *, most: int, together: int) -> dict[str, bytes]:
    """The blobs of at most `most` bytes each, up to `together` bytes of all. `most` is at most
    `CONTENT_MAX`.
    """
    names = [*dict.fromkeys(map(full_sha, shas))]
    if not names:
        return {}

    def read(git: Batch) -> dict[str, bytes]:
        left, small = together, []
        for header in git.info(*(name.encode() for name in names)):
            if header and header.kind == "blob" and header.size <= min(most, left, CONTENT_MAX):
                left -= header.size
                small.append(header)
        contents = git.contents(*small)
        return {header.sha: content for header, content in zip(small, contents, strict=True)}

    return repo.ask(read)


def blob_sizes(repo: GitRepo, shas: Iterable[str]) -> dict[str, int]:
    """The size of each of these blobs in bytes; missing ones are left out."""
    names = [*dict.fromkeys(map(full_sha, shas))]
    headers = repo.ask(lambda git: git.info(*(name.encode() for name in names))) if names else []
    return {header.sha: header.size for header in headers if header}


@dataclass(frozen=True, slots=True)
class File:
    """The entry of a commit at a path. `commit` is None if the name was no commit's, `entry` is
    None if there is nothing at the path. `content` is the whole file, or its beginning.
    """

    commit: str | None
    entry: Entry | None = None
    content: bytes = b""


def file_at(repo: GitRepo, name: str, path: bytes, *, most: int, start: int) -> File:
    """Read the entry at a path of a commit. `name` is the full name of a commit or annotated tag.

    `path` is not empty and has no `..`. Symbolic links are not followed. `content` has the whole
    file if that has at most `most` bytes, else the first `start` bytes. `GitError` if an object is
    missing or damaged.
    """
    check_shas(name)
    place, content = repo.ask(lambda git: _read_file(git, name, path, most))
    if place.commit is None:
        return File(None)
    entry = place.entry if place.is_known else entry_by_ls_tree(repo, place.commit, path)
    if entry is None or entry.kind in {"submodule", "directory"}:
        return File(place.commit, entry)
    if entry.size is None:
        raise GitError(f"object {entry.sha} is missing or is not a {entry.kind}")
    length = entry.size if entry.size <= most else start
    if content is None:
        content = start_of_blob(repo, entry.sha, length)
    return File(place.commit, entry, content[:length])


def _read_file(git: Batch, name: str, path: bytes, most: int) -> tuple[_Place, bytes | None]:
    """Find an entry, and read its content if that is small."""
    place = _find(git, name, path)
    header = place.header
    if header is None or header.kind != "blob" or header.size > CONTENT_MAX:
        return place, None
    return place, git.contents(header)[0]


def is_signed(repo: GitRepo, commit: str) -> bool | None:
    """Whether a commit carries a signature (not verified); None if `commit` is not a commit."""
    content = _small(repo, "commit", commit)
    if content is None:
        name = commit.encode()
        [header] = repo.ask(lambda git: git.info(name))
        if header is None or header.kind != "commit":
            return None
        content = _start_of(repo, "commit", commit, _HEADER_MAX)
    text, _, _ = content.partition(b"\n\n")
    return b"\ngpgsig " in text or b"\ngpgsig-sha256 " in text
