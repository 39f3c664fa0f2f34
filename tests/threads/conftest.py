"""An internal repository, and threads in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.repos.models import Repo, Visibility
from apps.teams.models import Team
from apps.threads.models import Reply, Thread, ThreadKind
from tests.by_actions import MakeByActions
from tests.gitclient import Clone


@pytest.fixture
def open_repo(repo: Repo) -> Repo:
    """`repo` as an internal repository, which carol, a stranger, may read."""
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    return repo


@pytest.fixture
def companion(open_repo: Repo, alice: User) -> Thread:
    """The companion thread of a pull by alice."""
    return Thread.open(
        open_repo, created_by=alice, kind=ThreadKind.PULL, title="Renew the lease", body=""
    )


@pytest.fixture
def thread(make: MakeByActions, open_repo: Repo, alice: User) -> Thread:
    """A thread by alice in the internal repository."""
    return make.thread(open_repo, by=alice)


@pytest.fixture
def reply(make: MakeByActions, thread: Thread, carol: User) -> Reply:
    """A reply by carol in alice's thread."""
    return make.reply(thread, by=carol)


@pytest.fixture
def secret(make: MakeByActions, acme: Team, alice: User) -> Thread:
    """A thread that carol may not read."""
    repo = make.repo(acme, "secret", by=alice, visibility=Visibility.PRIVATE)
    return make.thread(repo, by=alice)


@pytest.fixture
def clone(thread: Thread, alice: User, tmp_path: Path) -> Clone:
    """A clone of the repository of `thread`, with a first commit pushed."""
    made = Clone(tmp_path / "clone", thread.repo, alice)
    made.push_commit("main", {"a": "0\n"}, message="first")
    return made


@pytest.fixture
def writers(alice: User, bob: User, sam: User) -> list[User]:
    """Three people who may write in the team's private repository."""
    return [alice, bob, sam]
