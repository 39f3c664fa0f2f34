"""Generated histories of two branches, for comparing merges: `branches()` is a Hypothesis strategy.

There are few paths and few lines, so that the two sides often change the same place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from hypothesis import strategies as st

Entry = tuple[str, bytes]
"""Mode and content; for a submodule its commit instead of content."""
Tree = dict[bytes, Entry]
FILE, SCRIPT, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
TEXT = b"".join(b"line %d of a text that is long enough to be known again\n" % n for n in range(12))
PATHS = [b"a.txt", b"run.sh", b"dir", b"dir/one", b"dir/two", b"caf\xe9", "ü ü".encode(), b"lib/x"]
BEGIN: Tree = {
    b"a.txt": (FILE, TEXT),
    b"run.sh": (SCRIPT, b"#!/bin/sh\n" + TEXT.replace(b"text", b"script")),
    b"dir/one": (FILE, TEXT.replace(b"text", b"page")),
    b"dir/two": (FILE, b"two\n"),
    b"caf\xe9": (FILE, TEXT.replace(b"text", b"menu")),
}


class Shape(StrEnum):
    """The relation of the two branches."""

    APART = "they leave the same commit"
    UNRELATED = "they begin apart"
    MERGED = "the head has merged the target once"
    CRISS_CROSS = "each has merged the other once"
    AHEAD = "only the head has commits"


@dataclass(frozen=True)
class Edit:
    """A change of one path. A change that is impossible does nothing."""

    kind: str
    path: bytes
    other: bytes
    number: int

    def apply(self, tree: Tree) -> None:
        mode, data = tree.get(self.path, (FILE, TEXT))
        if self.kind == "move":
            if self.path in tree and self.path != self.other:
                put(tree, self.other, tree.pop(self.path))
        elif self.kind == "delete":
            tree.pop(self.path, None)
        elif self.kind == "link":
            put(tree, self.path, (LINK, b"to-%d" % self.number))
        elif self.kind == "submodule":
            put(tree, self.path, (SUBMODULE, b"%d" % (self.number + 1) * 40))
        elif self.kind == "binary":
            put(tree, self.path, (FILE, b"\0\1\2" * 40 + b"%d" % self.number))
        elif mode in (FILE, SCRIPT):
            put(tree, self.path, self.changed(mode, data))

    def changed(self, mode: str, data: bytes) -> Entry:
        """The regular file with another mode, other line ends, or a changed line."""
        if self.kind == "mode":
            return (FILE if mode == SCRIPT else SCRIPT, data)
        if self.kind == "crlf":
            return mode, data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        lines = data.splitlines(keepends=True)
        lines[self.number % len(lines) if lines else 0 :][:1] = []
        place = (self.number * 3) % max(1, len(lines))
        end = b"\r\n" if b"\r\n" in data else b"\n"
        lines[place : place + 1] = [b"changed by " + self.other + end]
        return mode, b"".join(lines)


def put(tree: Tree, path: bytes, entry: Entry) -> None:
    """Set a path, and remove a folder with that name or a file in the place of a parent folder."""
    for other in [*tree]:
        if other.startswith(path + b"/") or path.startswith(other + b"/"):
            del tree[other]
    tree[path] = entry


KINDS = ["line", "line", "line", "move", "move", "delete", "mode", "binary", "link", "submodule"]
edits = st.builds(
    Edit,
    kind=st.sampled_from([*KINDS, "crlf"]),
    path=st.sampled_from(PATHS),
    other=st.sampled_from(PATHS),
    number=st.integers(0, 3),
)
edits_of_one: st.SearchStrategy[list[Edit]] = st.one_of(
    st.just([]), st.lists(edits, min_size=2, max_size=4), st.lists(edits, min_size=3, max_size=6)
)
commits = st.lists(edits_of_one, min_size=1, max_size=2)


@dataclass(frozen=True)
class History:
    """The commits of each side, before and after a merge of the two. An empty list of edits is an
    empty commit.
    """

    shape: Shape
    ours: list[list[Edit]]
    theirs: list[list[Edit]]
    later: list[list[list[Edit]]] = field(default_factory=list)

    def stream(self) -> bytes:
        """Input for `git fast-import` with the branches `ours` and `theirs`."""
        stream = Stream()
        begin = stream.commit(dict(BEGIN))
        if self.shape is Shape.UNRELATED:
            theirs = stream.line(stream.commit(dict(BEGIN)), self.theirs)
        else:
            theirs = stream.line(begin, self.theirs)
        ours = begin if self.shape is Shape.AHEAD else stream.line(begin, self.ours)
        met = self.shape in (Shape.MERGED, Shape.CRISS_CROSS)
        before = ours, theirs
        if met:
            theirs = stream.line(stream.merge(theirs, ours, self.ours), self.later[0])
        if self.shape is Shape.CRISS_CROSS:
            ours = stream.merge(before[0], before[1], self.theirs)
        if met:
            ours = stream.line(ours, self.later[1])
        return stream.end(ours=ours, theirs=theirs)


class Stream:
    """Builds input for `git fast-import`. Each commit has a mark."""

    def __init__(self) -> None:
        self.trees: list[Tree] = []
        self.out = bytearray()

    def commit(self, tree: Tree, *parents: int) -> int:
        self.trees.append(tree)
        mark = len(self.trees)
        head = f"commit refs/heads/c{mark}\nmark :{mark}\n"
        head += f"committer A <a@example.org> {10**9 + mark} +0000\ndata 1\n{mark % 10}\n"
        for word, parent in zip(["from", *["merge"] * len(parents)], parents, strict=False):
            head += f"{word} :{parent}\n"
        self.out += head.encode() + b"deleteall\n"
        for path, (mode, data) in tree.items():
            if mode == SUBMODULE:
                self.out += b"M %b %b %b\n" % (mode.encode(), data, path)
            else:
                self.out += b"M %b inline %b\ndata %d\n" % (mode.encode(), path, len(data))
                self.out += data + b"\n"
        return mark

    def line(self, parent: int, changes: Iterable[list[Edit]]) -> int:
        """Append a line of commits; return the mark of the last."""
        for change in changes:
            parent = self.commit(self.after(parent, change), parent)
        return parent

    def merge(self, into: int, other: int, changes: Iterable[list[Edit]]) -> int:
        """Append a merge whose tree repeats all edits of the other side."""
        every = [edit for change in changes for edit in change]
        return self.commit(self.after(into, every), into, other)

    def after(self, mark: int, change: Iterable[Edit]) -> Tree:
        tree = dict(self.trees[mark - 1])
        for edit in change:
            edit.apply(tree)
        return tree

    def end(self, **branches: int) -> bytes:
        for name, mark in branches.items():
            self.out += f"reset refs/heads/{name}\nfrom :{mark}\n\n".encode()
        return bytes(self.out)


def branches() -> st.SearchStrategy[History]:
    """Strategy for histories of any shape."""
    later = st.lists(commits, min_size=2, max_size=2)
    shapes = st.sampled_from([*[Shape.APART] * 4, *Shape])
    return st.builds(History, shape=shapes, ours=commits, theirs=commits, later=later)
