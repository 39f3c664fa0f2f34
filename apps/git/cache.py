"""What git said about full object names, kept in memory: such an answer never changes.

A process asks here before it takes a lock, so that the same question under the lock costs nothing.
A failure is not kept.
"""

from functools import lru_cache
from typing import Final

from apps.git.merge import Mergeability
from apps.git.merge import mergeability as _mergeability
from apps.git.repo import DiffStat, Distance, GitRepo, is_sha

_KEPT: Final = 16_384
"""Answers of each kind; one is about 300 bytes."""
_KEPT_SETS: Final = 64
_KEPT_WITH_PATHS: Final = 1_024
"""These name up to a hundred files each."""


@lru_cache(_KEPT)
def is_ancestor(repo: GitRepo, a: str, b: str) -> bool:
    """See `GitRepo.is_ancestor`."""
    return repo.is_ancestor(a, b)


@lru_cache(_KEPT)
def distance(repo: GitRepo, old: str, new: str) -> Distance:
    """See `GitRepo.distance`."""
    return repo.distance(old, new)


@lru_cache(_KEPT)
def diff_stat(repo: GitRepo, base: str, head: str) -> DiffStat:
    """See `GitRepo.diff_stat`."""
    return repo.diff_stat(base, head)


@lru_cache(_KEPT)
def patch_id(repo: GitRepo, base: str, head: str) -> str | None:
    """See `GitRepo.patch_id`."""
    return repo.patch_id(base, head)


@lru_cache(_KEPT_WITH_PATHS)
def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """See `merge.mergeability`."""
    return _mergeability(repo, target, head)


@lru_cache(_KEPT_SETS)
def heads_sharing(repo: GitRepo, old: str, new: str, heads: frozenset[str]) -> frozenset[str]:
    """Which of `heads` have a commit that `new` has and `old` has not. One git for all of them.

    What the others have beside `old` they have beside `new` too. Heads that git lacks share
    nothing. `GitTooLarge` past some hundred thousand commits.
    """
    if not all(map(is_sha, (old, new, *heads))):
        raise ValueError("full object names are needed")
    lines = "\n".join([*heads, new, f"^{old}", ""]).encode()
    options = ("--topo-order", "--parents", "--ignore-missing", "--stdin")
    out = repo.git("rev-list", *options, stdin=lines).out.decode()
    history = [line.split(" ") for line in out.splitlines()]
    brought, sharing = {new}, set[str]()
    for commit, *parents in history:  # children before parents
        if commit in brought:
            brought.update(parents)
    for commit, *parents in reversed(history):
        if commit in brought or not sharing.isdisjoint(parents):
            sharing.add(commit)
    return heads & sharing
