"""Tests of repositories run with both kinds of owner, which differ in names and constraints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.git.protocol import Command
from apps.git.repo import GitRepo
from apps.repos.http.push import receive
from apps.repos.models import Repo
from tests.by_actions import MakeByActions
from tests.conftest import repo_below
from tests.git.scratch import Scratch, push_body
from tests.gitclient import Clone, Git
from tests.principals import access_of


@pytest.fixture(params=["team", pytest.param("user", marks=pytest.mark.slow)])
def repo(request: pytest.FixtureRequest, make: MakeByActions, alice: User) -> Repo:
    """The same as in other tests, but CI runs both owners on both databases."""
    return repo_below(request, make, alice)


@pytest.fixture
def other(tmp_path: Path) -> Scratch:
    """The repository of a person who pushes."""
    scratch = Scratch(tmp_path / "other.git")
    scratch.create()
    return scratch


def push_to(repo: Repo, by: User, source: GitRepo, *commands: Command) -> str:
    """Push these commands with their objects from `source`; return git's report."""
    body = push_body(source, commands)
    return receive(access=access_of(by, repo), body=iter([body])).decode()


@pytest.fixture
def ours(git: Callable[..., Git]) -> Git:
    """alice's work tree, with one commit pushed to `main` of the server's repository."""
    made = git()
    made.commit()
    made("push", "--quiet", made.url, "main")
    return made


@pytest.fixture
def clone(team_repo: Repo, alice: User, tmp_path: Path) -> Clone:
    """A clone of the team's repository, with one commit pushed to `main`."""
    made = Clone(tmp_path / "clone", team_repo, alice)
    made.commit("main", {"a": "1\n"})
    made.push("main")
    return made
