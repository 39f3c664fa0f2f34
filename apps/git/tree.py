"""Reads trees by `git ls-tree`, and blobs. Both are named by full object names only."""

import os
import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError, GitProcess, GitTooLarge, Result, spawn_blob

ENTRIES_MAX: Final = 100_000
"""Most entries of a list; longer ones are cut. 48 KB of hostile trees can name 10^10 files."""
KINDS: Final = {"040000": "directory", "120000": "symlink", "160000": "submodule"}
"""Kinds by mode. All other modes are files."""
_LINE: Final = re.compile(rb"(\d{6}) [a-z]+ ([0-9a-f]{40})(?: +(\d+|-|BAD))?\t(.+)", re.DOTALL)


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
    stdin = "".join(f"{_sha(sha)}^{{commit}}\n" for sha in shas)
    return ["--batch-check=%(objectname)"], stdin.encode()


def read_commits(result: Result) -> list[str | None]:
    """Parse its output: the commit of each name; None for a name of no commit."""
    return [word if is_sha(word) else None for word in result.out.decode().splitlines()]


def entry_at(repo: GitRepo, commit: str, path: bytes) -> Entry | None:
    """The entry of a commit at a path, which is not empty and has no `..`. Follows no links."""
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
    """The entries `start` to `stop` (exclusive) of a tree or of a commit's tree, in git's order.

    `recursive`: also the entries of subfolders, each folder before its entries. `below` is the path
    of the tree, and each entry's path begins with it. Only the requested entries are stored, and at
    most `ENTRIES_MAX` are read.
    """
    options = ["-r", "-t"] if recursive else []
    listing = _listing(repo, [*options, _sha(tree)], start, stop, sizes=sizes)
    prefix = below + b"/" if below else b""
    entries = (replace(entry, path=prefix + entry.path) for entry in listing.entries)
    return replace(listing, entries=tuple(entries))


def list_folder(
    repo: GitRepo, commit: str, path: bytes, *, start: int, stop: int, sizes: bool = False
) -> Listing:
    """`list_tree` for the folder of a commit at a path. No entries if there is no folder."""
    arguments = [_sha(commit), "--", os.fsdecode(path + b"/")]
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
    return repo.git("cat-file", "blob", _sha(sha)).out


def start_of_blob(repo: GitRepo, sha: str, most: int) -> bytes:
    """The first `most` bytes of a blob. The rest is not read."""
    content = bytearray()
    with closing(repo.read("cat-file", "blob", _sha(sha))) as pieces:
        for piece in pieces:
            content += piece
            if len(content) >= most:
                break
    return bytes(content[:most])


def stream_blob(repo: GitRepo, sha: str) -> GitProcess:
    """Start a git that writes a blob of any size; see `run.spawn_blob`."""
    return spawn_blob(repo.path, _sha(sha))


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"not a full object name: {text!r}")
    return text


def read_blobs(repo: GitRepo, shas: Iterable[str], *, most: int, together: int) -> dict[str, bytes]:
    """The blobs of at most `most` bytes each, up to `together` bytes of all."""
    names = [*dict.fromkeys(map(_sha, shas))]
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
