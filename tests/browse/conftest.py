"""A repository with the FILES of a test's module, for the tests of reading code."""

from __future__ import annotations

import pytest

from tests.browse.code import code_of, push


@pytest.fixture
def code(repo):
    return code_of(repo)


@pytest.fixture
def commit(request, repo, code, alice):
    """What `main` is at: a commit with what the module calls FILES."""
    sha = code.commit_with(request.module.FILES)
    push(repo, "refs/heads/main", sha, by=alice)
    return sha
