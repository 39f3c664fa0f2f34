"""A repository with one commit on `main`."""

from __future__ import annotations

import pytest

from tests.browse.code import code_of, push


@pytest.fixture
def head(repo, alice):
    """The commit of `main`."""
    sha = code_of(repo).commit_with({b"README": b"A place to meet.\n"})
    push(repo, "refs/heads/main", sha, by=alice)
    return sha


@pytest.fixture
def url(repo, head):
    """The address of the statuses of `head`."""
    return f"{repo.api_path}/commits/{head}/statuses"
