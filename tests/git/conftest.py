"""Fixtures: repositories without rows, for the tests of git."""

from pathlib import Path

import pytest

from tests.git.scratch import Scratch


@pytest.fixture
def repo(tmp_path: Path) -> Scratch:
    """A new, empty repository."""
    repo = Scratch(tmp_path / "aa" / "repo.git")
    repo.create()
    return repo


@pytest.fixture
def other(tmp_path: Path) -> Scratch:
    """A second empty repository, on the same disk."""
    other = Scratch(tmp_path / "bb" / "other.git")
    other.create()
    return other
