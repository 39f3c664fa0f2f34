"""Reads repositories with the `git` program, by other commands than the code under test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import run

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
ZERO = "0" * 40
LITERAL = "--literal-pathspecs"
WORDS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "T": "type_changed"}
TYPES = {"100644": "file", "100755": "file", "40000": "directory", "040000": "directory"}
TYPES |= {"120000": "symlink", "160000": "submodule"}


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


@dataclass(frozen=True)
class Entry:
    """A line of `ls-tree --long`."""

    path: bytes
    mode: str
    sha: str
    size: int | None

    @property
    def type(self) -> str:
        return TYPES[self.mode]


class Shell:
    """One repository, read like in a shell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def out(self, *args: str | bytes, ok: tuple[int, ...] = (0,)) -> bytes:
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.path)}
        command = ["git", f"--git-dir={self.path}", *args]
        done = run(command, env=env, capture_output=True, check=False)
        assert done.returncode in ok, done.stderr
        return done.stdout

    def lines(self, *args: str | bytes) -> list[str]:
        """The lines of the output, without line ends; none for no output."""
        return text(self.out(*args)).splitlines()

    def merge_base(self, a: str, b: str) -> str | None:
        return text(self.out("merge-base", a, b, ok=(0, 1))).strip() or None

    def refs(self, under: str) -> dict[str, tuple[str, str]]:
        """Short name -> the object and its commit."""
        form = "%(refname:lstrip=2) %(objectname) %(*objectname)"
        rows = (line.split(" ") for line in self.lines("for-each-ref", f"--format={form}", under))
        return {name: (sha, peeled or sha) for name, sha, peeled in rows}

    def commit(self, sha: str) -> dict[str, object]:
        """The record of a commit, without its URLs."""
        form = "%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%s%x00%B"
        out = text(self.out("show", "--no-patch", f"--format=tformat:{form}", sha))
        tree, parents, *people, subject, message = out.removesuffix("\n").split("\0")
        names = ("name", "email", "date")
        return {
            "sha": sha,
            "tree_sha": tree,
            "parents": parents.split(),
            "subject": subject,
            "author": dict(zip(names, people[:3], strict=True)),
            "committer": dict(zip(names, people[3:], strict=True)),
            "message": message,
        }

    def tree(self, sha: str, folder: bytes = b"", *options: str) -> list[Entry]:
        """The entries of a folder, which ends in a slash or is empty for the root."""
        args = ["ls-tree", "--long", "-z", *options, sha]
        out = self.out(LITERAL, *args, "--", folder) if folder else self.out(*args)
        return [self.entry(line) for line in out.split(b"\0") if line]

    @staticmethod
    def entry(line: bytes) -> Entry:
        head, path = line.split(b"\t", 1)
        mode, _, sha, size = head.decode().split()
        return Entry(path, mode, sha, None if size == "-" else int(size))

    def files(self, old: str, new: str) -> list[dict[str, object]]:
        """The records of the files that differ between two trees, in git's order."""
        diff = ("diff", "--no-ext-diff", "--no-textconv", "-z", "-M50%", "-l1000")
        raw = iter(self.out(*diff, "--raw", "--no-abbrev", old, new).split(b"\0"))
        counts = iter(self.out(*diff, "--numstat", old, new).split(b"\0"))
        return [{**entry, **self.counted(counts)} for entry in self.raw(raw)]

    def raw(self, fields: Iterator[bytes]) -> Iterator[dict[str, object]]:
        for head in fields:
            if not head:
                continue
            old_mode, mode, old, new, status = head.decode().lstrip(":").split()
            path = next(fields)
            previous, path = (path, next(fields)) if status[0] in "RC" else (None, path)
            yield {
                "path": text(path),
                "previous_path": previous and text(previous),
                "status": WORDS[status[0]],
                "sha": None if new == ZERO else new,
                "previous_sha": None if old == ZERO else old,
                "mode": None if mode == "000000" else mode,
                "previous_mode": None if old_mode == "000000" else old_mode,
            }

    @staticmethod
    def counted(fields: Iterator[bytes]) -> dict[str, object]:
        added, removed, path = next(fields).split(b"\t", 2)
        if not path:
            next(fields), next(fields)
        if added == b"-":
            return {"additions": None, "deletions": None, "is_binary": True}
        return {"additions": int(added), "deletions": int(removed), "is_binary": False}

    def patch(self, old: str, new: str) -> bytes:
        options = ("-p", "-M50%", "-l1000", "--full-index", "--binary")
        plain = ("--no-ext-diff", "--no-textconv", "--no-color")
        return self.out("diff", *options, *plain, old, new)

    def blame(self, sha: str, path: bytes) -> list[tuple[str, int, bytes]]:
        """For each line its commit, and its number and path in that commit."""
        lines = []
        commit, line, name = "", 0, b""
        for output_line in self.out(LITERAL, "blame", "--line-porcelain", sha, "--", path).split(
            b"\n"
        ):
            if output_line.startswith(b"\t"):
                lines.append((commit, line, name))
            elif len(head := output_line.split(b" ")) >= 3 and len(head[0]) == 40:
                commit, line = head[0].decode(), int(head[1])
            elif output_line.startswith(b"filename "):
                name = unquoted(output_line.removeprefix(b"filename "))
        return lines


def unquoted(name: bytes) -> bytes:
    """Decode a path that git has quoted."""
    if not name.startswith(b'"'):
        return name
    plain = name[1:-1].decode("latin-1")
    return plain.encode("latin-1").decode("unicode_escape").encode("latin-1")
