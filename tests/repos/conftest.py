"""Repositories on a real server, and work trees that speak to them."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.gitperson import Git
from tests.server import Server


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
