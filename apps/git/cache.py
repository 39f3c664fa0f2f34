"""Answers of git that a process keeps in memory, because they are read again and again.

An answer about two full object names never changes. What one piece of work asks twice is kept in
its own `GitFacts` instead.
"""

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from time import monotonic
from typing import Final, Generic, TypeVar

from apps.git.merge import Mergeability
from apps.git.merge import mergeability as _ask_mergeability
from apps.git.merge import merged_tree as _ask_merged_tree
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout

SLOW_SECONDS: Final = 600.0
"""For so long git is not asked again what it could not tell in time."""
Answer = TypeVar("Answer")


class _Question(Generic[Answer]):
    """What is known of two commits: the answer, or until when git is not asked for it again."""

    def __init__(self) -> None:
        self.asking = Lock()
        self.answers: list[Answer] = []
        self.too_slow_until = 0.0


class _Answers(Generic[Answer]):
    """The answers that a function gives about two commits; for each pair one thread asks git, and
    the others wait for it. Of errors only `GitTimeout` is kept.
    """

    def __init__(self, function: Callable[[GitRepo, str, str], Answer], most: int) -> None:
        def begin(repo: GitRepo, target: str, head: str) -> _Question[Answer]:
            return _Question()

        self.function = function
        self.finding = Lock()
        self.find = lru_cache(most)(begin)

    def of(self, repo: GitRepo, target: str, head: str) -> Answer:
        with self.finding:  # else two threads could begin the same question
            question = self.find(repo, target, head)
        with question.asking:
            if not question.answers:
                if monotonic() < question.too_slow_until:
                    raise GitTimeout(f"merging {head} into {target} took too long a while ago")
                try:
                    question.answers.append(self.function(repo, target, head))
                except GitTimeout:
                    question.too_slow_until = monotonic() + SLOW_SECONDS
                    raise
            return question.answers[0]


_mergeability: Final = _Answers(_ask_mergeability, 1_024)
_merged_tree: Final = _Answers(_ask_merged_tree, 4_096)


def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """See `merge.mergeability`. What took too long is a `GitTimeout` at once for ten minutes.

    Clients poll whether a pull can be merged, and to tell takes several git processes: three for
    each commit that a rebase would replay. An answer names up to a hundred files.
    """
    return _mergeability.of(repo, target, head)


def merged_tree(repo: GitRepo, target: str, head: str) -> str | None:
    """See `merge.merged_tree`. What took too long is a `GitTimeout` at once for ten minutes.

    Whether approvals still count is asked again and again, for the same few commits.
    """
    return _merged_tree.of(repo, target, head)
