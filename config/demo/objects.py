"""Objects of git made in memory and stored many at a time: one process for each kind."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.git.repo import GitRepo

FOLDER = "40000"
KINDS = ("blob", "tree", "commit", "tag")
"""Each may name objects of the kinds before it."""


@dataclass(frozen=True)
class File:
    """A file of a commit: a plain one, one that can be run, or a symbolic link."""

    content: bytes
    mode: str = "100644"

    @classmethod
    def text(cls, text: str) -> File:
        """A plain file."""
        return cls(text.encode())

    @classmethod
    def program(cls, content: bytes) -> File:
        """A file that can be run."""
        return cls(content, "100755")

    @classmethod
    def link(cls, target: str) -> File:
        """A symbolic link to a path, seen from its folder."""
        return cls(target.encode(), "120000")


class Objects:
    """Objects by name: those that wait for `store`, and the names of all that there have been."""

    def __init__(self) -> None:
        self.waiting: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self.known: set[str] = set()

    def add(self, kind: str, content: bytes) -> str:
        """Keep an object until `store`; returns its name."""
        head = f"{kind} {len(content)}\0".encode()
        sha = hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
        if sha not in self.known:
            self.known.add(sha)
            self.waiting[kind][sha] = content
        return sha

    def tree(self, files: Mapping[str, File]) -> str:
        """The tree of these files by path, with the trees of their folders."""
        below: defaultdict[str, dict[str, File]] = defaultdict(dict)
        entries: dict[str, tuple[str, str]] = {}
        for path, file in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below[name][rest] = file
            else:
                entries[name] = (file.mode, self.add("blob", file.content))
        entries |= {name: (FOLDER, self.tree(inside)) for name, inside in below.items()}
        # git sorts a folder as if a slash stood behind its name.
        order = sorted(entries, key=lambda name: name + "/" * (entries[name][0] == FOLDER))
        lines = (f"{entries[name][0]} {name}\0".encode() for name in order)
        names = (bytes.fromhex(entries[name][1]) for name in order)
        content = b"".join(line + sha for line, sha in zip(lines, names, strict=True))
        return self.add("tree", content)

    def commit(self, tree: str, parents: tuple[str, ...], who: str, message: str) -> str:
        """A commit; `who` is its author and committer, with the time, as git writes them."""
        lines = [f"tree {tree}", *(f"parent {sha}" for sha in parents)]
        lines += [f"author {who}", f"committer {who}", "", f"{message}\n"]
        return self.add("commit", "\n".join(lines).encode())

    def tag(self, commit: str, name: str, who: str, message: str) -> str:
        """An annotated tag of a commit."""
        lines = [f"object {commit}", "type commit", f"tag {name}", f"tagger {who}", "", message, ""]
        return self.add("tag", "\n".join(lines).encode())

    def store(self, git: GitRepo) -> None:
        """Write what waits into a repository. git checks the form of each object."""
        for kind in KINDS:
            if not self.waiting[kind]:
                continue
            with TemporaryDirectory() as folder:
                paths = [Path(folder) / sha for sha in self.waiting[kind]]
                for path, content in zip(paths, self.waiting[kind].values(), strict=True):
                    path.write_bytes(content)
                lines = "".join(f"{path}\n" for path in paths).encode()
                options = ("-t", kind, "-w", "--no-filters", "--stdin-paths")
                git.git("hash-object", *options, stdin=lines)
        self.waiting.clear()
