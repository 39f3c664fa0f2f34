"""Answers of git that a process keeps in memory, because they are read again and again.

An answer about two full object names never changes. What one piece of work asks twice is kept in
its own `GitFacts` instead.
"""

from functools import lru_cache

from apps.git.merge import Mergeability
from apps.git.merge import mergeability as _mergeability
from apps.git.merge import merged_tree as _merged_tree
from apps.git.repo import GitRepo


@lru_cache(1_024)
def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """See `merge.mergeability`. No error is kept.

    Clients poll whether a pull can be merged, and to tell takes several git processes: three for
    each commit that a rebase would replay. An answer names up to a hundred files.
    """
    return _mergeability(repo, target, head)


@lru_cache(4_096)
def merged_tree(repo: GitRepo, target: str, head: str) -> str | None:
    """See `merge.merged_tree`. No error is kept.

    Whether approvals still count is asked again and again, for the same few commits.
    """
    return _merged_tree(repo, target, head)
