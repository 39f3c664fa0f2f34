"""Generates repositories with Hypothesis, to compare answers with those of git.

They have few paths and few people, so that commits often change the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.git.histories import BEGIN, FILE, SUBMODULE, TEXT, Edit, Tree, put
from tests.git.scratch import git

PATHS = [
    b"a.txt",
    b"run.sh",
    b"dir",
    b"dir/one",
    b"dir/two",
    b"caf\xe9",
    "ü ü".encode(),
    b"lib/x",
    b"empty",
    b"-x",
    b":(top)x",
    b'tab\t and "quote"',
    b"line\nend",
    b"a b/c%2Fd?e#f+g",
    b"/".join([b"deep"] * 40),
    b"\xff\xfe/\x80",
    b"*",
    b".gitmodules",
]
CONTENTS = {
    "empty": b"",
    "no line end": b"one\ntwo\nno end",
    "crlf": b"one\r\ntwo\r\n",
    "latin": b"caf\xe9\nna\xefve\n",
    "nul": b"text\0and more\n",
    "late nul": b"x" * 8100 + b"\0\n",
    "big": b"".join(b"row %d\n" % (n % 97) for n in range(3000)),
    "text": TEXT,
}
PEOPLE = [
    (b"Alice Archer", b"alice@example.org"),
    ("Bj\u00f6rn \u2603".encode(), b"bjorn@example.org"),
    (b"Ren\xe9", b"rene@example.org"),
    (b"A. (x) [y] .*", b"dots.*@example.org"),
    (b"", b""),
]
OFFSETS = [b"+0000", b"-0330", b"+1400", b"-1200", b"+0545"]
MESSAGES = [b"One line", b"Subject\n\nBody of\nseveral lines\n"]
MESSAGES += [b"A subject\nthat goes on\n\nand a body\n\n", b"caf\xe9\n"]
MESSAGES += ["\u2603 \U0001f600\n".encode(), b"\n\n  begins late\n", b"", b"x" * 300 + b"\n"]
MOST_PARENTS = 3
BEGINS_AT = 1_600_000_000


@dataclass(frozen=True)
class Write:
    """Sets a path to one of `CONTENTS`, which an `Edit` would not write."""

    path: bytes
    content: str

    def apply(self, tree: Tree) -> None:
        put(tree, self.path, (FILE, CONTENTS[self.content]))


@dataclass(frozen=True)
class Made:
    """A commit. `back`: its parents, counted from the newest commit before it; none for a root."""

    back: tuple[int, ...]
    edits: tuple[Edit | Write, ...]
    author: int
    committer: int
    message: bytes
    seconds: int
    """Seconds since the commit before it. They may be negative, because clocks may be wrong."""


@dataclass(frozen=True)
class Tag:
    """A tag of the commit that is `back` before the newest. A lightweight one has no message."""

    back: int
    message: bytes | None


@dataclass(frozen=True)
class World:
    """A repository. `main` is its newest commit; `side-<n>` are others."""

    commits: tuple[Made, ...]
    branches: tuple[int, ...]
    tags: tuple[Tag, ...]

    def write(self, git_dir: Path) -> list[str]:
        """Write it into an empty repository; return the names of its commits, oldest first."""
        git(git_dir, "fast-import", "--quiet", "--done", stdin=self.stream())
        marks = [f"refs/made/c{n}" for n in range(len(self.commits) + 1)]
        names = git(git_dir, "rev-parse", *marks).decode().split()
        gone = "".join(f"delete {mark}\n" for mark in marks)
        git(git_dir, "update-ref", "--stdin", stdin=gone.encode())
        return names

    def stream(self) -> bytes:
        """The input of `git fast-import`."""
        trees, now = [dict(BEGIN)], BEGINS_AT
        first = Made((), (), 0, 0, b"Begin", 0)
        out = [commit(0, first, [], trees[0], now)]
        for number, made in enumerate(self.commits, 1):
            parents = list(dict.fromkeys(max(0, number - 1 - back) for back in made.back))
            tree = dict(trees[parents[0]] if parents else BEGIN)
            for edit in made.edits:
                edit.apply(tree)
            now += made.seconds
            out.append(commit(number, made, parents, tree, now))
            trees.append(tree)
        last = len(self.commits)
        heads = {f"side-{n}/x": max(0, last - back) for n, back in enumerate(self.branches)}
        for name, number in (heads | {"main": last}).items():
            out.append(b"reset refs/heads/%b\nfrom :%d\n\n" % (name.encode(), number + 1))
        for n, tag in enumerate(self.tags):
            out.append(tagged(n, tag, max(0, last - tag.back) + 1))
        return b"".join([*out, b"done\n"])


def commit(number: int, made: Made, parents: list[int], tree: Tree, now: int) -> bytes:
    lines = [b"commit refs/made/c%d\nmark :%d\n" % (number, number + 1)]
    for role, who in ((b"author", made.author), (b"committer", made.committer)):
        name, email = PEOPLE[who]
        offset = OFFSETS[(number + who) % len(OFFSETS)]
        # Without a name, git writes no space before the address.
        lines.append(b"%b %b<%b> %d %b\n" % (role, name and name + b" ", email, now, offset))
    lines.append(b"data %d\n%b\n" % (len(made.message), made.message))
    words = [b"from", *[b"merge"] * MOST_PARENTS]
    lines += [b"%b :%d\n" % (word, n + 1) for word, n in zip(words, parents, strict=False)]
    lines.append(b"deleteall\n")
    for path, (mode, data) in tree.items():
        quoted = b'"%b"' % b"".join(escaped(byte) for byte in path)
        if mode == SUBMODULE:
            lines.append(b"M %b %b %b\n" % (mode.encode(), data, quoted))
        else:
            lines.append(b"M %b inline %b\n" % (mode.encode(), quoted))
            lines.append(b"data %d\n%b\n" % (len(data), data))
    return b"".join(lines)


def escaped(byte: int) -> bytes:
    plain = 32 <= byte < 127 and byte not in b'"\\'
    return bytes([byte]) if plain else b"\\%03o" % byte


def tagged(n: int, tag: Tag, mark: int) -> bytes:
    if tag.message is None:
        return b"reset refs/tags/light-%d\nfrom :%d\n\n" % (n, mark)
    who = b"tagger T <t@example.org> %d +0200" % BEGINS_AT
    text = tag.message
    return b"tag v%d.0\nfrom :%d\n%b\ndata %d\n%b\n" % (n, mark, who, len(text), text)


KINDS = ["line", "line", "line", "move", "move", "delete", "mode", "binary", "link", "submodule"]
paths = st.sampled_from(PATHS)
edits = st.one_of(
    st.builds(
        Edit,
        kind=st.sampled_from([*KINDS, "crlf"]),
        path=paths,
        other=paths,
        number=st.integers(0, 3),
    ),
    st.builds(Write, path=paths, content=st.sampled_from([*CONTENTS])),
)
people = st.integers(0, len(PEOPLE) - 1)
parents = st.one_of(
    st.just((0,)),
    st.just((0,)),
    st.lists(st.integers(0, 5), min_size=1, max_size=MOST_PARENTS).map(tuple),
    st.just(()),
)
commits = st.builds(
    Made,
    back=parents,
    edits=st.lists(edits, max_size=4).map(tuple),
    author=people,
    committer=people,
    message=st.sampled_from(MESSAGES),
    seconds=st.sampled_from([60, 0, 3600, 86400, -5000]),
)
tags = st.builds(
    Tag, back=st.integers(0, 5), message=st.one_of(st.none(), st.sampled_from(MESSAGES))
)


def worlds() -> st.SearchStrategy[World]:
    """Repositories of two to nine commits with several branches and tags."""
    return st.builds(
        World,
        commits=st.lists(commits, min_size=1, max_size=8).map(tuple),
        branches=st.lists(st.integers(0, 6), max_size=3).map(tuple),
        tags=st.lists(tags, max_size=4).map(tuple),
    )
