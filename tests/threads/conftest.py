"""An open repository, and threads in it."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo, Visibility
from apps.threads.models import Thread, ThreadKind
from tests.by_actions import MakeByActions


@pytest.fixture
def open_repo(repo: Repo) -> Repo:
    """`repo`, but internal: carol, a stranger, reads it under both owners."""
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    return repo


@pytest.fixture
def companion(open_repo: Repo, alice: User) -> Thread:
    """The thread of a pull of alice's."""
    return Thread.open(
        open_repo, created_by=alice, kind=ThreadKind.PULL, title="Renew the lease", body=""
    )


@pytest.fixture
def thread(make: MakeByActions, open_repo: Repo, alice: User) -> Thread:
    """A thread of alice's in the open repository."""
    return make.thread(open_repo, by=alice)


@pytest.fixture
def writers(alice: User, bob: User, sam: User) -> list[User]:
    """Three people who may write in the team's private repository."""
    return [alice, bob, sam]
