"""Reads a file of a commit, or a commit's header, with one git process."""

import re
import stat
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError
from apps.git.tree import Entry, entry_at, start_of_blob

_FOLDER_MAX: Final = 1024 * 1024
"""Bytes of a folder whose entries Python searches. git itself searches larger ones, which may have
up to 32 MiB: reading them through a pipe would take longer.
"""
_HEADER_MAX: Final = 1024 * 1024
_OBJECT: Final = re.compile(rb"([0-9a-f]{40}) ([a-z]+) (\d+)\n")
_ENTRY: Final = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_COMMANDS: Final = b"info %b^{commit}\0contents %b\0contents %b\0"


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
    if not is_sha(name):
        raise ValueError(f"not a full object name: {name!r}")
    root, (folder, _, last) = name.encode(), path.rpartition(b"/")
    tree = b"%b:%b" % (root, folder) if folder else b"%b^{tree}" % root
    stdin = _COMMANDS % (root, tree, b"%b:%b" % (root, path))
    with closing(repo.read("cat-file", "--batch-command", "-z", stdin=stdin)) as pieces:
        answers = _Answers(pieces)
        commit = answers.header(b"%b^{commit}" % root)
        if commit is None:
            return File(None)
        around = answers.header(tree)
        is_large = around is not None and around.size > _FOLDER_MAX
        listing = None if is_large else answers.whole(around, "tree")
        header = answers.header(b"%b:%b" % (root, path)) if listing is not None else None
        if header and header.kind == "tree":
            return File(commit.sha, Entry(path, "040000", header.sha))
        if listing and header and (mode := _mode(listing, last, header)):
            content = answers.read(header.size if header.size <= most else start)
            return File(commit.sha, Entry(path, mode, header.sha, header.size), content)
    # A submodule, nothing at all, or a folder too large to search here.
    entry = entry_at(repo, commit.sha, path)
    if entry is None or entry.kind == "submodule" or (is_large and entry.kind == "directory"):
        return File(commit.sha, entry)
    if not is_large or entry.size is None:
        raise GitError(f"object {entry.sha} is missing or is not a {entry.kind}")
    length = entry.size if entry.size <= most else start
    return File(commit.sha, entry, start_of_blob(repo, entry.sha, length))


def is_signed(repo: GitRepo, commit: str) -> bool | None:
    """Whether a commit carries a signature (not verified); None if `commit` is not a commit."""
    if not is_sha(commit):
        raise ValueError(f"not a full object name: {commit!r}")
    with closing(repo.read("cat-file", "--batch", stdin=f"{commit}\n".encode())) as pieces:
        answers = _Answers(pieces)
        header = answers.header(commit.encode())
        if header is None or header.kind != "commit":
            return None
        text, _, _ = answers.read(min(header.size, _HEADER_MAX)).partition(b"\n\n")
    return b"\ngpgsig " in text or b"\ngpgsig-sha256 " in text


@dataclass(frozen=True, slots=True)
class _Header:
    """The name, type and size that git writes before an object's bytes."""

    sha: str
    kind: str
    size: int


def _mode(listing: bytes, name: bytes, header: _Header) -> str | None:
    """The mode of a file in a tree, normalized as by `ls-tree`; None if it is not a file."""
    name_and_sha = name, bytes.fromhex(header.sha)
    # Parses the entries one by one: a name may contain bytes that look like another entry.
    modes = (entry[1] for entry in _ENTRY.finditer(listing) if entry.group(2, 3) == name_and_sha)
    mode = int(next(modes, b"0"), 8)  # may have leading zeros, and bits that git ignores
    if header.kind == "blob" and stat.S_ISLNK(mode):
        return "120000"
    if header.kind == "blob" and stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return None


class _Answers:
    """Parses the output of `cat-file --batch-command -z` as it arrives."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self.pieces, self.buffer = pieces, bytearray()

    def header(self, name: bytes) -> _Header | None:
        """The line before an object; None if git has no object of this name."""
        absent = name + b" missing\n"
        while not (match := _OBJECT.match(self.buffer)):
            if self.buffer.startswith(absent):
                del self.buffer[: len(absent)]
                return None
            self.more()
        sha, kind, size = match.groups()
        del self.buffer[: match.end()]
        return _Header(sha.decode(), kind.decode(), int(size))

    def whole(self, header: _Header | None, kind: str) -> bytes | None:
        """All bytes of the object; None if it is absent or of another type."""
        if header is None or header.kind != kind:
            return None
        content = self.read(header.size + 1)
        return content[:-1]

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        while len(self.buffer) < size:
            self.more()
        content = bytes(self.buffer[:size])
        del self.buffer[:size]
        return content

    def more(self) -> None:
        piece = next(self.pieces, b"")
        if not piece:
            raise GitError("git cat-file ended before it had written all objects")
        self.buffer += piece
