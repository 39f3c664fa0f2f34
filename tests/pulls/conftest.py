"""A repository that strangers read, a clone of it, and a pull in it."""

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
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    return repo


@pytest.fixture
def clone(open_repo: Repo, alice: User, tmp_path: Path) -> Clone:
    """alice's clone of the open repository, with `main` pushed."""
    clone = Clone(tmp_path / "clone", open_repo, alice)
    clone.commit("main", {"README": "A place to meet.\n"}, message="begin")
    clone.push("main")
    return clone


@pytest.fixture
def pull(make: Make, clone: Clone, alice: User) -> Pull:
    """alice asks for her branch `feature`, one commit ahead of `main`."""
    clone.commit("feature", {"door": "open\n"}, onto="main", message="add a door")
    clone.push("feature")
    return make.pull(clone.repo, by=alice, title="Add a door")


@pytest.fixture
def bare_pull(make: Make, open_repo: Repo, carol: User) -> Pull:
    """carol, who only reads, asks for a branch that nobody has pushed."""
    return make.pull(open_repo, by=carol, title="Widen the gate", body="It is narrow.")
