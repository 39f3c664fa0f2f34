"""Objects with their bytes: a file of a commit, of which one git tells all, and a commit."""

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
"""Bytes of a folder that are looked through here. In larger ones git does that: it takes longer to
bring them here, and they may have 32 MiB.
"""
_HEADER_MAX: Final = 1024 * 1024
_FOUND: Final = re.compile(rb"([0-9a-f]{40}) ([a-z]+) (\d+)\n")
_ENTRY: Final = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_COMMANDS: Final = b"info %b^{commit}\0contents %b\0contents %b\0"


@dataclass(frozen=True, slots=True)
class File:
    """What a commit has at a path. `commit` is None where the name was that of no commit, `entry`
    where nothing is at the path. `content` is all of a file, or as much of it as was asked for.
    """

    commit: str | None
    entry: Entry | None = None
    content: bytes = b""


def file_at(repo: GitRepo, name: str, path: bytes, *, most: int, start: int) -> File:
    """What the commit of this full name, or that a tag of this name leads to, has at a path, which
    is not empty and has no `..`. Links are not followed.

    The content of what has at most `most` bytes, of others the first `start`. `GitError` when an
    object is missing or damaged.
    """
    if not is_sha(name):
        raise ValueError(f"no full object name: {name!r}")
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
        found = answers.header(b"%b:%b" % (root, path)) if listing is not None else None
        if found and found.kind == "tree":
            return File(commit.sha, Entry(path, "040000", found.sha))
        if listing and found and (mode := _mode(listing, last, found)):
            content = answers.read(found.size if found.size <= most else start)
            return File(commit.sha, Entry(path, mode, found.sha, found.size), content)
    # A submodule, or nothing: of neither git has an object.
    entry = entry_at(repo, commit.sha, path)
    if entry is None or entry.kind == "submodule" or (is_large and entry.kind == "directory"):
        return File(commit.sha, entry)
    if not is_large or entry.size is None:
        raise GitError(f"object {entry.sha} is missing or no {entry.kind}")
    wanted = entry.size if entry.size <= most else start
    return File(commit.sha, entry, start_of_blob(repo, entry.sha, wanted))


def is_signed(repo: GitRepo, commit: str) -> bool | None:
    """Whether a commit says that it has a signature, which nobody checks; None for what is none."""
    if not is_sha(commit):
        raise ValueError(f"no full object name: {commit!r}")
    with closing(repo.read("cat-file", "--batch", stdin=f"{commit}\n".encode())) as pieces:
        answers = _Answers(pieces)
        found = answers.header(commit.encode())
        if found is None or found.kind != "commit":
            return None
        header, _, _ = answers.read(min(found.size, _HEADER_MAX)).partition(b"\n\n")
    return b"\ngpgsig " in header or b"\ngpgsig-sha256 " in header


@dataclass(frozen=True, slots=True)
class _Header:
    """What git says of an object before its bytes."""

    sha: str
    kind: str
    size: int


def _mode(listing: bytes, name: bytes, found: _Header) -> str | None:
    """The mode of a file in a tree, as git has it in lists; None for what is no file there."""
    wanted = name, bytes.fromhex(found.sha)
    # Each entry in turn: a name may hold whatever the entry of another file begins with.
    modes = (one[1] for one in _ENTRY.finditer(listing) if one.group(2, 3) == wanted)
    mode = int(next(modes, b"0"), 8)  # may begin with zeros, and have bits that git leaves out
    if found.kind == "blob" and stat.S_ISLNK(mode):
        return "120000"
    if found.kind == "blob" and stat.S_ISREG(mode):
        return "100755" if mode & stat.S_IXUSR else "100644"
    return None


class _Answers:
    """What `cat-file --batch-command -z` writes, taken apart as it comes."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self.pieces, self.buffer = pieces, bytearray()

    def header(self, asked: bytes) -> _Header | None:
        """The line before an object; None where git has none of this name."""
        absent = asked + b" missing\n"
        while not (found := _FOUND.match(self.buffer)):
            if self.buffer.startswith(absent):
                del self.buffer[: len(absent)]
                return None
            self.more()
        sha, kind, size = found.groups()
        del self.buffer[: found.end()]
        return _Header(sha.decode(), kind.decode(), int(size))

    def whole(self, header: _Header | None, kind: str) -> bytes | None:
        """All bytes of an object of this kind; None for another."""
        if header is None or header.kind != kind:
            return None
        content = self.read(header.size + 1)
        return content[:-1]

    def read(self, size: int) -> bytes:
        """So many bytes."""
        while len(self.buffer) < size:
            self.more()
        content = bytes(self.buffer[:size])
        del self.buffer[:size]
        return content

    def more(self) -> None:
        piece = next(self.pieces, b"")
        if not piece:
            raise GitError("git cat-file has told of some objects only")
        self.buffer += piece
