"""Writes files into trees without a work tree or an index, and commits them.

Only the trees on the way to a changed path are read. The new objects go to git as one small pack,
which `unpack-objects --strict` checks: it refuses names such as `.git` or `..`, which `mktree` and
`fast-import` accept. An emptied folder disappears, and modes of old repositories stay.
"""

import hashlib
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.git.batch import CONTENT_MAX, Batch
from apps.git.repo import GitRepo, full_sha
from apps.git.run import GitError

_TYPES: Final = {"commit": 1, "tree": 2, "blob": 3}
_ENTRY: Final = re.compile(rb"([0-7]{1,7}) ([^\0]+)\0(.{20})", re.DOTALL)
_FOLDER: Final = b"40000"
_FILE: Final = b"100644"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a tree object: its mode as git writes it, its name, its object in hexadecimal."""

    mode: bytes
    name: bytes
    sha: str

    @property
    def is_folder(self) -> bool:
        return self.mode == _FOLDER

    @property
    def is_file(self) -> bool:
        return self.mode.startswith(b"100")


@dataclass(frozen=True, slots=True)
class NewFile:
    """The new content of a file. `mode`: `100644`, `100755`, or None for that of the old file."""

    content: bytes
    mode: str | None = None


class PathConflict(Exception):
    """A path leads through a file, or names a folder, a symlink or a submodule."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that git may not have yet: `blob`, `tree` or `commit`, and its content."""

    kind: str
    content: bytes

    @property
    def sha(self) -> str:
        head = f"{self.kind} {len(self.content)}\0".encode()
        return hashlib.sha1(head + self.content, usedforsecurity=False).hexdigest()


def parse_tree(content: bytes) -> list[TreeEntry]:
    """The entries of a tree object, without the leading zeros that old tools wrote into modes.
    `ValueError` if it is malformed.
    """
    entries, end = [], 0
    for match in _ENTRY.finditer(content):
        if match.start() != end:
            break
        mode, name, sha = match.groups()
        entries.append(TreeEntry(mode.lstrip(b"0"), name, sha.hex()))
        end = match.end()
    if end != len(content):
        raise ValueError("malformed tree")
    return entries


def write_tree(entries: Iterable[TreeEntry]) -> bytes:
    """The tree object of these entries, in git's order: a folder sorts as if it ended in `/`."""
    in_order = sorted(entries, key=lambda one: one.name + b"/" * one.is_folder)
    return b"".join(b"%b %b\0%b" % (one.mode, one.name, bytes.fromhex(one.sha)) for one in in_order)


def pack(objects: Sequence[NewObject]) -> bytes:
    """A pack of these objects, each compressed and complete (gitformat-pack(5))."""
    parts = [b"PACK", (2).to_bytes(4, "big"), len(objects).to_bytes(4, "big")]
    for one in objects:
        size = len(one.content)
        byte, size = _TYPES[one.kind] << 4 | size & 15, size >> 4
        while size:
            parts.append(bytes([byte | 128]))
            byte, size = size & 127, size >> 7
        parts += [bytes([byte]), zlib.compress(one.content)]
    body = b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def store(repo: GitRepo, objects: Sequence[NewObject]) -> None:
    """Write objects into the repository. No ref points to them: `upkeep` removes them after two
    weeks. `GitError`, also for names that git does not allow in a tree.
    """
    repo.git("unpack-objects", "-q", "--strict", stdin=pack(objects))


def change_tree(
    repo: GitRepo, tree: str, changes: Mapping[bytes, NewFile | None]
) -> tuple[str, list[NewObject]]:
    """The tree with these files changed, and the objects that it needs, children first.

    `changes`: a path with `/` to its new file, or None to delete it. `tree` may also be a commit.
    `PathConflict`; `GitError`, `ValueError` if a tree is missing or malformed. Writes nothing.
    """
    name = f"{full_sha(tree)}^{{tree}}".encode()
    objects: list[NewObject] = []
    root = _read_tree(repo, name)
    steps = {tuple(path.split(b"/")): change for path, change in changes.items()}
    return _changed(repo, root, steps, objects) or _added(write_tree([]), objects), objects


def _changed(
    repo: GitRepo,
    entries: Sequence[TreeEntry],
    changes: Mapping[tuple[bytes, ...], NewFile | None],
    objects: list[NewObject],
) -> str | None:
    """The name of a folder's tree after these changes; None if it has become empty."""
    by_name = {entry.name: entry for entry in entries}
    below = defaultdict[bytes, dict[tuple[bytes, ...], NewFile | None]](dict)
    for (name, *rest), change in changes.items():
        if rest:
            below[name][tuple(rest)] = change
            continue
        old = by_name.pop(name, None)
        if old is not None and not old.is_file:
            raise PathConflict(name.decode("utf-8", "replace"))
        if change is not None:
            objects.append(new := NewObject("blob", change.content))
            mode = change.mode.encode() if change.mode else old.mode if old else _FILE
            by_name[name] = TreeEntry(mode, name, new.sha)
    for name, inner in below.items():
        if (old := by_name.pop(name, None)) is not None and not old.is_folder:
            raise PathConflict(name.decode("utf-8", "replace"))
        inside = _read_tree(repo, old.sha.encode()) if old else []
        if (tree := _changed(repo, inside, inner, objects)) is not None:
            by_name[name] = TreeEntry(_FOLDER, name, tree)
    return _added(write_tree(by_name.values()), objects) if by_name else None


def _added(tree: bytes, objects: list[NewObject]) -> str:
    objects.append(new := NewObject("tree", tree))
    return new.sha


def _read_tree(repo: GitRepo, name: bytes) -> list[TreeEntry]:
    def read(git: Batch) -> bytes | str:
        [header] = git.info(name)
        if header is None or header.kind != "tree":
            raise GitError(f"there is no tree {name.decode()}")
        return git.contents(header)[0] if header.size <= CONTENT_MAX else header.sha

    answer = repo.ask(read)
    if isinstance(answer, str):  # too large for a git that stays
        answer = repo.git("cat-file", "tree", answer).out
    return parse_tree(answer)
