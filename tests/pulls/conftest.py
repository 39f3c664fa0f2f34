"""Repositories that strangers read, a clone, and pulls with and without commits.

Tests of addresses run under both owners and push nothing; tests of git run under the team's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.pulls.models import Pull
from apps.repos.models import Repo, Visibility
from tests.gitclient import Clone
from tests.make import Make


@pytest.fixture
def open_repo(repo: Repo) -> Repo:
    """`repo`, but internal: carol, a stranger, reads it under both owners."""
    return opened(repo)


@pytest.fixture
def bare_pull(make: Make, open_repo: Repo, carol: User) -> Pull:
    """carol, who only reads, asks for a branch that nobody has pushed."""
    return make.pull(open_repo, by=carol, title="Widen the gate", body="It is narrow.")


@pytest.fixture
def clone(team_repo: Repo, alice: User, tmp_path: Path) -> Clone:
    """alice's clone of the team's repository, which is internal; `main` is pushed."""
    clone = Clone(tmp_path / "clone", opened(team_repo), alice)
    clone.commit("main", {"README": "A place to meet.\n"}, message="begin")
    clone.push("main")
    return clone


@pytest.fixture
def pull(make: Make, clone: Clone, alice: User) -> Pull:
    """alice asks for her branch `feature`, one commit ahead of `main`."""
    clone.commit("feature", {"door": "open\n"}, onto="main", message="add a door")
    clone.push("feature")
    return make.pull(clone.repo, by=alice, title="Add a door")


def opened(repo: Repo) -> Repo:
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    return repo
