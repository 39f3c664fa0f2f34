"""Tests of repositories run with both kinds of owner, which differ in names and constraints."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo
from tests.by_actions import MakeByActions
from tests.conftest import repo_below
from tests.git.scratch import Scratch
from tests.gitclient import Clone


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


@pytest.fixture
def clone(team_repo: Repo, alice: User, tmp_path: Path) -> Clone:
    """A clone of the team's repository, with one commit pushed to `main`."""
    made = Clone(tmp_path / "clone", team_repo, alice)
    made.commit("main", {"a": "1\n"})
    made.push("main")
    return made
