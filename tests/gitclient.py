"""Somebody's clone: real commits, pushed straight into the bare repository on disk.

Rows, events and pulls follow a push here as they do behind the git door: the journal before, then
git, then `settle`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

from apps.accounts.models import User
from apps.repos.models import BRANCHES, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO


class Clone:
    """A work tree that pushes for one person, if not told otherwise."""

    def __init__(self, folder: Path, repo: Repo, by: User) -> None:
        self.folder, self.repo, self.by = folder, repo, by
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *args: str, email: str = "") -> str:
        """What git prints, without the line end. Commits are by the clone's person."""
        address = email or f"{self.by.username}@example.org"
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": address.split("@")[0], f"GIT_{role}_EMAIL": address}
        done = run(
            ["git", *args], cwd=self.folder, env=env, capture_output=True, text=True, check=False
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
        """A commit of these files on a branch; returns its name.

        `onto`: the branch starts here first, made anew if it existed.
        """
        if onto:
            self.git("checkout", "--quiet", "-B", branch, onto)
        elif self.git("branch", "--list", branch):
            self.git("checkout", "--quiet", branch)
        else:
            self.git("checkout", "--quiet", "--orphan", branch)
            self.git("rm", "--quiet", "-r", "--force", "--ignore-unmatch", ".")
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message, email=email)
        return self.git("rev-parse", "HEAD")

    def push(self, *specs: str, by: User | None = None) -> None:
        """Push branches, by force: `feature`, `main:release`, `:feature` to delete one."""
        present = self.repo.git.refs()
        moves = []
        for spec in specs:
            source, colon, target = spec.partition(":")
            name = BRANCHES + (target if colon else source)
            new = self.git("rev-parse", source) if source else ZERO
            moves.append((name, present.get(name, ZERO), new))
        push = open_journal(actor=by or self.by, repo=self.repo, moves=moves)
        wanted = [f"+{'' if new == ZERO else new}:{name}" for name, _, new in moves]
        try:
            self.git("push", "--quiet", str(self.repo.git.path), *wanted)
        finally:
            settle(repo=self.repo, push=push)

    def server(self, *args: str) -> str:
        """What git prints about the bare repository."""
        return self.git(f"--git-dir={self.repo.git.path}", *args)
