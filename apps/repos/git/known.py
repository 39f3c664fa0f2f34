"""What git said about full object names, kept in memory: such an answer never changes.

A process asks here before it takes a lock, so that the same question under the lock costs nothing.
A failure is not kept.
"""

from functools import lru_cache
from typing import Final

from apps.repos.git.repo import DiffStat, GitRepo

_KEPT: Final = 16_384
"""Answers of each kind; one is about 300 bytes."""


@lru_cache(_KEPT)
def is_ancestor(repo: GitRepo, a: str, b: str) -> bool:
    """See `GitRepo.is_ancestor`."""
    return repo.is_ancestor(a, b)


@lru_cache(_KEPT)
def count_commits(repo: GitRepo, base: str, head: str) -> int:
    """See `GitRepo.count_commits`."""
    return repo.count_commits(base, head)


@lru_cache(_KEPT)
def diff_stat(repo: GitRepo, base: str, head: str) -> DiffStat:
    """See `GitRepo.diff_stat`."""
    return repo.diff_stat(base, head)
