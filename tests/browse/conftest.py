"""A repository with the FILES of a test's module, for the tests of reading code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.git.repo import GitRepo
from tests.browse.code import Code, code_of, push
from tests.repos.test_git_http import api_path


@pytest.fixture
def code(repo):
    return code_of(repo)


@pytest.fixture
def commit(request, repo, code, alice):
    """The head of `main`, a commit with the FILES of the test module."""
    sha = code.commit_with(request.module.FILES)
    push(repo, "refs/heads/main", sha, by=alice)
    return sha


@pytest.fixture
def served_code(server: Any, path: str) -> Code:
    """The repository at `path`, on the disk of the server."""
    uuid = server.api("alice").get(api_path(path)).gives()["uuid"].replace("-", "")
    folder = Path(server.environment["DATA_DIR"]) / "repositories"
    [store] = [path for path in folder.glob("*/*/*.git") if path.stem.replace("-", "") == uuid]
    return Code(GitRepo(store).path)
