"""git as people use it: the real program, in a work tree, over HTTP."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import uuid4


class Git:
    """A work tree whose git speaks to one repository of the server for one person."""

    def __init__(self, folder: Path, url: str, token: str | None) -> None:
        self.folder = folder
        self.url = url.replace("://", f"://any:{token}@") if token else url
        folder.mkdir(parents=True)
        self("init", "--quiet", "--initial-branch=main")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """git's status and words, whatever they are."""
        person = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
        committer = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C"}
        quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**plain, **quiet, **person, **committer, **environment},
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __call__(self, *arguments: str, **environment: str) -> str:
        """What git prints; it must succeed."""
        done = self.run(*arguments, **environment)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def fails(self, *arguments: str) -> str:
        """What git prints; it must fail."""
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        return done.stdout

    def commit(self, name: str = "a.txt", text: str = "") -> str:
        (self.folder / name).write_text(text or uuid4().hex)
        self("add", "--all")
        self("commit", "--quiet", "--message", f"Write {name}")
        return self("rev-parse", "HEAD")
