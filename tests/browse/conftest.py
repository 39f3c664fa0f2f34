"""A repository with the FILES of a test's module, for the tests of reading code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.git.repo import GitRepo
from tests.browse.code import Code, code_of, push
from tests.repos.test_git_http import api_path


@pytest.fixture
def code(request):
    """The `team_repo` of a test that uses it, else its `repo`, on disk."""
    return code_of(request.getfixturevalue(repo_name(request)))


def repo_name(request: pytest.FixtureRequest) -> str:
    return "team_repo" if "team_repo" in request.fixturenames else "repo"


@pytest.fixture
def ask(request, api, alice):
    """`ask("main...topic/x", person)` reads an address below the RESOURCE of the test's module, as
    this person or as alice.
    """
    base = request.getfixturevalue(repo_name(request)).api_path + request.module.RESOURCE

    def send(end: str = "", person: Any = alice, **headers: str) -> Any:
        return api(person).send("GET", base + end, headers=headers)

    return send


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
