"""Writes commits with folders, links, submodules and names of any bytes into a repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from apps.accounts.models import User
from apps.git.protocol import ZERO
from apps.repos.models import Repo
from apps.repos.pushes import open_journal, settle
from tests.git.histories import FILE, LINK, SCRIPT, SUBMODULE
from tests.git.scratch import Scratch

Thing: TypeAlias = bytes | tuple[str, bytes]
"""The content of a plain file; or a mode of `tests.git.histories` and the content. The content of a
submodule is its commit in hexadecimal digits.
"""
__all__ = ["FILE", "LINK", "SCRIPT", "SUBMODULE", "Code"]


class Code(Scratch):
    """A repository on disk, into which a test writes objects without a push."""

    def tree_with(self, files: Mapping[bytes, Thing]) -> str:
        """Write a tree with these paths; return its object name."""
        below: dict[bytes, dict[bytes, Thing]] = {}
        entries: dict[bytes, tuple[str, str]] = {}
        for path, thing in files.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = thing
            else:
                mode, data = thing if isinstance(thing, tuple) else (FILE, thing)
                blob = data.decode() if mode == SUBMODULE else self.store("blob", [data], len(data))
                entries[name] = mode, blob
        for name, inner in below.items():
            entries[name + b"/"] = "40000", self.tree_with(inner)
        body = b"".join(
            b"%b %b\0%b" % (mode.encode(), name.removesuffix(b"/"), bytes.fromhex(sha))
            for name, (mode, sha) in sorted(entries.items())
        )
        return self.store("tree", [body], len(body))

    def commit_with(
        self,
        files: Mapping[bytes, Thing],
        *parents: str,
        message: str = "change",
        email: str = "ada@example.org",
        header: str = "",
        at: int = 1_700_000_000,
    ) -> str:
        """Write a commit with exactly these files. `header` has more header lines."""
        lines = [f"tree {self.tree_with(files)}", *(f"parent {sha}" for sha in parents)]
        lines += [f"{role} Ada <{email}> {at} +0200" for role in ("author", "committer")]
        stored = "\n".join([*lines, *([header] if header else []), "", message]).encode()
        return self.store("commit", [stored], len(stored))

    def tag_of(self, sha: str, kind: str = "commit") -> str:
        """Write an annotated tag of an object."""
        text = f"object {sha}\ntype {kind}\ntag v1\ntagger Ada <ada@example.org> 1 +0000\n\nv1\n"
        return self.store("tag", [text.encode()], len(text))


def code_of(repo: Repo) -> Code:
    return Code(repo.git.path)


def push(repo: Repo, name: str, sha: str, *, by: User) -> None:
    """Move a ref, by its full name, like a push whose objects have arrived."""
    old = repo.git.ref(name) or ZERO
    journal = open_journal(actor=by, repo=repo, moves=[(name, old, sha)])
    repo.git.update_ref(name, sha, old)
    settle(repo=repo, push=journal)
