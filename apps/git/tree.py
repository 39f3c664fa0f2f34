"""Reads trees and files. Trees and blobs are named by full object names only."""

import os
import re
import stat
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from apps.git.repo import GitRepo, check_shas, full_sha, is_sha
from apps.git.run import GitError, GitProcess, GitTooLarge, Result, spawn_blob

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
_OBJECT: Final = re.compile(rb"([0-9a-f]{40}) ([a-z]+) (\d+)\n")
_ENTRY: Final = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
_COMMANDS: Final = b"info %b^{commit}\0contents %b\0contents %b\0"


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
    options, stdin = ask_for_commits(*shas)
    return read_commits(repo.git("cat-file", *options, stdin=stdin))


def ask_for_commits(*shas: str) -> tuple[list[str], bytes]:
    """The options and the input of a `cat-file` that asks for these commits."""
    stdin = "".join(f"{full_sha(sha)}^{{commit}}\n" for sha in shas)
    return ["--batch-check=%(objectname)"], stdin.encode()


def read_commits(result: Result) -> list[str | None]:
    """Parse its output: the commit of each name; None for a name of no commit."""
    return [word if is_sha(word) else None for word in result.out.decode().splitlines()]


def entry_at(repo: GitRepo, commit: str, path: bytes) -> Entry | None:
    """The entry of a commit at a path, which is not empty and has no `..`. Follows no links."""
    out = repo.git("ls-tree", "-z", "--long", full_sha(commit), "--", os.fsdecode(path)).out
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
    """The entries `start` to `stop` (exclusive) of a tree or of a commit's tree, in git's order.

    `recursive`: also the entries of subfolders, each folder before its entries. `below` is the path
    of the tree, and each entry's path begins with it. Only the requested entries are stored, and at
    most `ENTRIES_MAX` are read.
    """
    options = ["-r", "-t"] if recursive else []
    listing = _listing(repo, [*options, full_sha(tree)], start, stop, sizes=sizes)
    prefix = below + b"/" if below else b""
    entries = (replace(entry, path=prefix + entry.path) for entry in listing.entries)
    return replace(listing, entries=tuple(entries))


def list_folder(
    repo: GitRepo, commit: str, path: bytes, *, start: int, stop: int, sizes: bool = False
) -> Listing:
    """`list_tree` for the folder of a commit at a path. No entries if there is no folder."""
    arguments = [full_sha(commit), "--", os.fsdecode(path + b"/")]
    listing = _listing(repo, arguments, start, stop, sizes=sizes)
    if listing.entries and listing.entries[0].path == path:  # a submodule
        return Listing((), truncated=False)
    return listing


def _listing(repo: GitRepo, arguments: list[str], start: int, stop: int, *, sizes: bool) -> Listing:
    entries: list[Entry] = []
    truncated = False
    try:
        with closing(repo.read("ls-tree", "-z", *arguments)) as pieces:
            truncated = _collect(pieces, entries, start, min(stop, ENTRIES_MAX))
    except GitTooLarge:
        truncated = True
    if sizes:  # `--long` would read the sizes of all entries
        entries = _with_sizes(repo, entries)
    return Listing(tuple(entries), truncated)


def _with_sizes(repo: GitRepo, entries: list[Entry]) -> list[Entry]:
    blobs = [*dict.fromkeys(entry.sha for entry in entries if entry.kind in {"file", "symlink"})]
    if not blobs:
        return entries
    stdin = "\n".join([*blobs, ""]).encode()
    out = repo.git("cat-file", "--batch-check=%(objectsize)", stdin=stdin).out
    answers = dict(zip(blobs, out.split(b"\n"), strict=False))
    # A missing object has no size.
    sizes = {sha: int(size) for sha, size in answers.items() if size.isdigit()}
    return [
        replace(entry, size=sizes[entry.sha]) if entry.sha in sizes else entry for entry in entries
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
    return repo.git("cat-file", "blob", full_sha(sha)).out


def start_of_blob(repo: GitRepo, sha: str, most: int) -> bytes:
    """The first `most` bytes of a blob. The rest is not read."""
    content = bytearray()
    with closing(repo.read("cat-file", "blob", full_sha(sha))) as pieces:
        for piece in pieces:
            content += piece
            if len(content) >= most:
                break
    return bytes(content[:most])


def stream_blob(repo: GitRepo, sha: str) -> GitProcess:
    """Start a git that writes a blob of any size; see `run.spawn_blob`."""
    return spawn_blob(repo.path, full_sha(sha))


def read_blobs(repo: GitRepo, shas: Iterable[str], *, most: int, together: int) -> dict[str, bytes]:
    """The blobs of at most `most` bytes each, up to `together` bytes of all."""
    names = [*dict.fromkeys(map(full_sha, shas))]
    if not names:
        return {}
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
    out = repo.git("cat-file", form, stdin="\n".join([*names, ""]).encode()).out.decode()
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
    """Parse the output of `cat-file --batch`: content by name."""
    contents, at = {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        sha, _, size = out[at:end].decode().split(" ")
        at = end + 1 + int(size)
        contents[sha] = out[end + 1 : at]
        at += 1
    return contents


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
    check_shas(commit)
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
