"""A git that never ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apps.git.repo import GitRepo
from apps.git.run import LIMITS, Limits
from tests.git.scratch import git


@contextmanager
def stuck(repo: GitRepo, commit: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let reading the files of this commit block for ever, with a deadline of half a second for
    merges.
    """
    tree = git(repo.path, "rev-parse", f"{commit}^{{tree}}").decode()
    file = repo.path / "objects" / tree[:2] / tree[2:]
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)
    with monkeypatch.context() as impatient:
        impatient.setitem(LIMITS, "merge-tree", Limits(deadline=0.5))
        yield
    file.unlink()
    file.write_bytes(content)
