"""Work trees of the real git: `Clone` pushes into the bare repository on disk, `Git` over HTTP.

A push of a `Clone` gets rows, events and changes of pulls like one over HTTP: it writes the
journal, runs git, and calls `settle`.
"""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, STDOUT, CompletedProcess, run
from uuid import uuid4

from apps.accounts.models import User
from apps.git.refs import read_refs
from apps.repos.models import BRANCHES, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO


class Clone:
    """A work tree of one person, who pushes unless `by` names another. It writes objects directly
    into the bare repository, where a push only moves refs. `Git` transfers them over HTTP.
    """

    def __init__(self, folder: Path, repo: Repo, by: User) -> None:
        self.folder, self.repo, self.by = folder, repo, by
        self.trees: dict[str, dict[str, str]] = {}
        heads = folder / ".git" / "refs" / "heads"
        heads.mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text(f"ref: {BRANCHES}nothing-yet\n")

    def git(self, *args: str, email: str = "", stdin: str = "") -> str:
        """Run git; returns its output without the line end. Commits are by the clone's person."""
        address = email or f"{self.by.username}@example.org"
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        env |= {"GIT_OBJECT_DIRECTORY": str(self.repo.git.path / "objects")}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": address.split("@")[0], f"GIT_{role}_EMAIL": address}
        done = run(
            ["git", *args],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(
        self,
        branch: str,
        files: Mapping[str, str],
        *,
        onto: str = "",
        message: str = "change",
        email: str = "",
    ) -> str:
        """Commit these files on a branch; returns the commit. The work tree does not change. With
        `onto` the branch starts there, even if it exists.
        """
        assert "/" not in "".join(files), "there are no folders here"
        begins = self.sha(onto) if onto else self.head(branch)
        address = email or f"{self.by.username}@example.org"
        person = f"{address.split('@')[0]} <{address}> {int(time.time())} +0000"
        tree = self.tree(begins) | {name: self.store("blob", text) for name, text in files.items()}
        entries = (
            b"100644 %b\0%b" % (name.encode(), bytes.fromhex(tree[name])) for name in sorted(tree)
        )
        lines = [f"tree {self.store('tree', b''.join(entries))}"]
        lines += [f"parent {begins}"] if begins else []
        lines += [f"author {person}", f"committer {person}", "", f"{message}\n"]
        made = self.store("commit", "\n".join(lines))
        self.trees[made] = tree
        head = self.folder / ".git" / BRANCHES / branch
        head.parent.mkdir(parents=True, exist_ok=True)
        head.write_text(f"{made}\n")
        return made

    def push_commit(
        self, branch: str, files: Mapping[str, str], *, by: User | None = None, **options: str
    ) -> str:
        """`commit`, then `push` the branch; returns the commit."""
        made = self.commit(branch, files, **options)
        self.push(branch, by=by)
        return made

    def tree(self, commit: str) -> dict[str, str]:
        """The blobs of a commit by file name; there are no folders."""
        if commit and commit not in self.trees:
            lines = self.git("ls-tree", commit).splitlines()
            self.trees[commit] = {line.split("\t")[1]: line.split()[2] for line in lines}
        return self.trees[commit] if commit else {}

    def store(self, kind: str, content: str | bytes) -> str:
        """Write an object in git's form, without a process; returns its name."""
        body = content.encode() if isinstance(content, str) else content
        whole = f"{kind} {len(body)}\0".encode() + body
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self.repo.git.path / "objects" / name[:2] / name[2:]
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(zlib.compress(whole, 1))
        return name

    def head(self, branch: str) -> str:
        """The commit of a branch of the work tree; "" if there is none."""
        return read_refs(self.folder / ".git", [BRANCHES + branch]).get(BRANCHES + branch, "")

    def checkout(self, branch: str) -> None:
        """Check the branch out."""
        self.git("checkout", "--quiet", "--force", branch)

    def sha(self, revision: str) -> str:
        """The commit of a branch or of any other revision."""
        return self.head(revision) or self.git("rev-parse", revision)

    def push(self, *specs: str, by: User | None = None) -> None:
        """Push branches, by force: `feature`, `main:release`, `:feature` to delete one."""
        moves = []
        for spec in specs:
            source, _, target = spec.partition(":")
            name, new = BRANCHES + (target or source), self.sha(source) if source else ZERO
            moves.append((name, self.repo.git.ref(name) or ZERO, new))
        push = open_journal(actor=by or self.by, repo=self.repo, moves=moves)
        wanted = [f"update {name} {new} {old}\n" for name, old, new in moves]
        try:
            self.server("update-ref", "--stdin", stdin="".join(wanted))
        finally:
            settle(repo=self.repo, push=push)

    def server(self, *args: str, stdin: str = "") -> str:
        """Run git in the bare repository; returns its output."""
        return self.git(f"--git-dir={self.repo.git.path}", *args, stdin=stdin)


class Git:
    """A work tree that pulls from and pushes to one repository of a server, as one person."""

    def __init__(self, folder: Path, url: str, token: str | None) -> None:
        self.folder = folder
        self.url = url.replace("://", f"://any:{token}@") if token else url
        folder.mkdir(parents=True)
        self("init", "--quiet", "--initial-branch=main")

    def run(self, *arguments: str, **environment: str) -> CompletedProcess[str]:
        """Run git; returns its status and output, and does not fail."""
        person = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
        committer = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        return run(
            ["git", *arguments],
            cwd=self.folder,
            env={**plain, **quiet, **person, **committer, **environment},
            check=False,
            text=True,
            timeout=600,  # a hung server fails the test and not the whole run
            stdout=PIPE,
            stderr=STDOUT,
        )

    def __call__(self, *arguments: str, **environment: str) -> str:
        """Run git, which must succeed; returns its output."""
        done = self.run(*arguments, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def fails(self, *arguments: str) -> str:
        """Run git, which must fail; returns its output."""
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stdout

    def commit(self, name: str = "a.txt", text: str = "") -> str:
        (self.folder / name).write_text(text or uuid4().hex)
        self("add", "--all")
        self("commit", "--quiet", "--message", f"Write {name}")
        return self("rev-parse", "HEAD")
