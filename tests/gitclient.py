"""Somebody's clone: real commits, in the bare repository on disk.

Rows, events and pulls follow a push here as they do behind the git door: the journal before, then
git, then `settle`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

from apps.accounts.models import User
from apps.repos.git.refs import read_refs
from apps.repos.models import BRANCHES, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO


class Clone:
    """A work tree that pushes for one person, if not told otherwise.

    It writes objects where the server has them, so that a push is what git does last: to move refs.
    How they travel is for those who push over HTTP (`tests.gitperson`).
    """

    def __init__(self, folder: Path, repo: Repo, by: User) -> None:
        self.folder, self.repo, self.by = folder, repo, by
        heads = folder / ".git" / "refs" / "heads"
        heads.mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text(f"ref: {BRANCHES}nothing-yet\n")

    def git(self, *args: str, email: str = "", stdin: str = "") -> str:
        """What git prints, without the line end. Commits are by the clone's person."""
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
        """A commit of these files on a branch; returns its name. The work tree stays as it is.

        `onto`: the branch starts here first, made anew if it existed.
        """
        address = email or f"{self.by.username}@example.org"
        person = f"{address.split('@')[0]} <{address}> now"
        begins = onto or (branch if read_refs(self.folder / ".git", [BRANCHES + branch]) else "")
        lines = [f"commit {BRANCHES}{branch}", "mark :1", f"author {person}", f"committer {person}"]
        lines += data(f"{message}\n") + ([f"from {begins}^0"] if begins else [])
        for name, text in files.items():
            lines += [f"M 100644 inline {name}", *data(text)]
        lines += ["get-mark :1", ""]
        packed = ("-c", "fastimport.unpackLimit=0")  # else a further git would unpack it
        options = ("--quiet", "--force", "--date-format=now")
        return self.git(*packed, "fast-import", *options, stdin="\n".join(lines))

    def checkout(self, branch: str) -> None:
        """Have the work tree as the branch is."""
        self.git("checkout", "--quiet", "--force", branch)

    def sha(self, revision: str) -> str:
        """The commit that a branch, or any other expression, stands for."""
        found = read_refs(self.folder / ".git", [BRANCHES + revision])
        return found.get(BRANCHES + revision) or self.git("rev-parse", revision)

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
        """What git prints about the bare repository."""
        return self.git(f"--git-dir={self.repo.git.path}", *args, stdin=stdin)


def data(text: str) -> list[str]:
    """A text as `git fast-import` reads it."""
    return [f"data {len(text.encode())}", text]
