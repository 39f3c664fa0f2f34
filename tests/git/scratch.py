"""Real repositories for the tests of `apps.git`: commits, bombs and pushes."""

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import run

from apps.git.protocol import FLUSH, Command, pkt
from apps.git.repo import GitRepo, Person

ALICE = Person("Alice Archer", "alice@example.org")
BOB = Person("Bob Brewer", "bob@example.org")

CAPABILITIES = "report-status side-band-64k object-format=sha1"


def git(path: Path, *args: str, stdin: bytes = b"") -> bytes:
    """Run git like a person in a shell, without limits; return its output without line end."""
    return git_bytes(path, *args, stdin=stdin).rstrip(b"\n")


def git_bytes(path: Path, *args: str, stdin: bytes = b"") -> bytes:
    """The same with all of the output: the checksum of a pack may end with a line feed."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(path)}
    done = run(["git", f"--git-dir={path}", *args], input=stdin, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Scratch(GitRepo):
    """A repository into which a test writes commits without pushing them."""

    def commit(
        self,
        files: Mapping[str, bytes],
        *parents: str,
        author: Person = ALICE,
        message: str = "change",
    ) -> str:
        """Write a commit of exactly these files, which are not in folders."""
        tree = b""
        for name, data in sorted(files.items()):
            mode = "100755" if name.endswith(".sh") else "100644"
            blob = bytes.fromhex(self.store("blob", [data], len(data)))
            tree += f"{mode} {name}\0".encode("utf-8", "surrogateescape") + blob
        lines = [f"tree {self.store('tree', [tree], len(tree))}"]
        lines += [f"parent {parent}" for parent in parents]
        lines += [f"author {author.name} <{author.email}> 1700000000 +0200"]
        lines += [f"committer {author.name} <{author.email}> 1700000001 +0200"]
        stored = "\n".join([*lines, "", message]).encode()
        return self.store("commit", [stored], len(stored))

    def store(self, kind: str, pieces: Iterable[bytes], size: int) -> str:
        """Write an object of any size piece by piece. git does not check it."""
        head = f"{kind} {size}\0".encode()
        name, packer = hashlib.sha1(head, usedforsecurity=False), zlib.compressobj(1)
        packed = packer.compress(head)
        for piece in pieces:
            name.update(piece)
            packed += packer.compress(piece)
        file = self.path / "objects" / name.hexdigest()[:2] / name.hexdigest()[2:]
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(packed + packer.flush())
        return name.hexdigest()

    def zeros(self, mebibytes: int) -> str:
        """A large blob that compresses to few bytes."""
        piece = bytes(1024 * 1024)
        return self.store("blob", (piece for _ in range(mebibytes)), mebibytes * len(piece))

    def tree(self, mode: str, entries: Mapping[str, str]) -> str:
        body = b"".join(
            f"{mode} {name}\0".encode() + bytes.fromhex(sha) for name, sha in entries.items()
        )
        return self.store("tree", [body], len(body))

    def tree_bomb(self, last: bytes = b"x") -> str:
        """A tree of a few kilobytes that names 12 to the power of 9 files."""
        mode, below = "100644", self.store("blob", [last], len(last))
        for _ in range(9):
            below = self.tree(mode, {f"{n:02}": below for n in range(12)})
            mode = "40000"
        return below

    def commit_of(self, tree: str, *parents: str) -> str:
        lines = [f"tree {tree}", *(f"parent {sha}" for sha in parents)]
        lines += [f"{role} A <a@example.org> 1700000000 +0000" for role in ("author", "committer")]
        stored = "\n".join([*lines, "", "a tree\n"]).encode()
        return self.store("commit", [stored], len(stored))

    def show(self, sha: str) -> str:
        """The text of a commit object."""
        return git(self.path, "cat-file", "commit", sha).decode()

    def file(self, sha: str, name: str) -> bytes:
        return git(self.path, "show", f"{sha}:{name}")

    def subjects(self, target: str, head: str) -> list[str]:
        """The messages of a range, oldest first."""
        out = git(self.path, "log", "--reverse", "--format=%s", f"{target}..{head}")
        return out.decode().splitlines()

    def object_count(self) -> int:
        return sum(file.is_file() for file in (self.path / "objects").rglob("*"))


def push_body(source: GitRepo, commands: Iterable[Command], caps: str = CAPABILITIES) -> bytes:
    """The request of a `git push` with these commands and all of their objects."""
    all_commands = list(commands)
    lines = [f"{command.old} {command.new} {command.ref}".encode() for command in all_commands]
    lines[0] += f"\0 {caps}".encode()
    tips = "".join(f"{c.new}\n" for c in all_commands if not c.deletes).encode()
    pack_objects = ("pack-objects", "--revs", "--stdout", "-q")
    pack = git_bytes(source.path, *pack_objects, stdin=tips) if tips else b""
    return b"".join(map(pkt, lines)) + FLUSH + pack
