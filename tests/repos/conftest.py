"""git as people use it: the real program, over HTTP, against a real server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from tests.server import Server


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


@pytest.fixture
def path(server: Server) -> str:
    """A fresh private repository of alice's: `users/alice/…` under gunicorn, else `teams/…/api`.

    One owner for each server: all four together would show nothing more, for twice the time.
    """
    alice, name = server.api("alice"), f"r{uuid4().hex[:12]}"
    if server.kind == "gunicorn":
        alice.post("/users/alice/repos", name=name, slug=name).gives(201)
        return f"users/alice/{name}"
    alice.post("/teams", name=name, slug=name).gives(201)
    alice.post(f"/teams/{name}/repos", name="Api", slug="api").gives(201)
    return f"teams/{name}/api"


@pytest.fixture
def git(server: Server, path: str, tmp_path: Path):
    """`git("alice")`: a work tree of hers that speaks to the repository."""

    def work_tree(person: str | None = "alice") -> Git:
        token = server.token(person) if person else None
        return Git(tmp_path / uuid4().hex, f"{server.url}/{path}.git", token)

    return work_tree
