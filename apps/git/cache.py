"""Answers of git that a process keeps in memory, because they are read again and again.

An answer about two full object names never changes. What one piece of work asks twice is kept in
its own `GitFacts` instead.
"""

from functools import lru_cache
from threading import Lock
from time import monotonic
from typing import Final

from apps.git.merge import Mergeability
from apps.git.merge import mergeability as _mergeability
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout

SLOW_SECONDS: Final = 600.0
"""For so long git is not asked again what it could not tell in time."""


class _Question:
    """What is known of two commits: the answer, or until when git is not asked for it again."""

    def __init__(self) -> None:
        self.asking = Lock()
        self.answer: Mergeability | None = None
        self.too_slow_until = 0.0


@lru_cache(1_024)
def _question(repo: GitRepo, target: str, head: str) -> _Question:
    return _Question()


_finding = Lock()


def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """See `merge.mergeability`. Of errors only `GitTimeout` is kept, for ten minutes.

    Clients poll whether a pull can be merged, and to tell takes several git processes: three for
    each commit that a rebase would replay. So one thread asks, and the others wait for its answer.
    An answer names up to a hundred files.
    """
    with _finding:  # else two threads could make the same question twice
        question = _question(repo, target, head)
    with question.asking:
        if question.answer is None:
            if monotonic() < question.too_slow_until:
                raise GitTimeout(f"merging {head} into {target} took too long a while ago")
            try:
                question.answer = _mergeability(repo, target, head)
            except GitTimeout:
                question.too_slow_until = monotonic() + SLOW_SECONDS
                raise
        return question.answer
