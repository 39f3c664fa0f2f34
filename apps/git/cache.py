"""Answers of git that a process keeps in memory, because they are read again and again.

An answer about two full object names never changes. What one piece of work asks twice is kept in
its own `GitFacts` instead.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final, Generic, TypeVar

from apps.git.merge import Mergeability, Strategy
from apps.git.merge import mergeability as _ask_mergeability
from apps.git.merge import merged_tree as _ask_merged_tree
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout

SLOW_SECONDS: Final = 600.0
"""For so long git is not asked again what it could not tell in time."""
Answer = TypeVar("Answer")


class _Slow:
    """Two commits that git could not merge in time, and until when it is not asked to again."""

    def __init__(self) -> None:
        self.until: dict[tuple[Path, str, str], float] = {}

    def check(self, repo: GitRepo, target: str, head: str) -> None:
        if monotonic() < self.until.get((repo.path, target, head), 0.0):
            raise GitTimeout(f"merging {head} into {target} took too long a while ago")

    @contextmanager
    def noted(self, repo: GitRepo, target: str, head: str) -> Iterator[None]:
        """Inside, git is asked about the two; `GitTimeout` at once where it was too slow before."""
        self.check(repo, target, head)
        try:
            yield
        except GitTimeout:
            self.note(repo, target, head)
            raise

    def note(self, repo: GitRepo, target: str, head: str) -> None:
        now = monotonic()
        kept = {pair: until for pair, until in [*self.until.items()] if until > now}
        self.until = {**kept, (repo.path, target, head): now + SLOW_SECONDS}


_merges: Final = _Slow()
_rebases: Final = _Slow()


class _Question(Generic[Answer]):
    """What is known of two commits."""

    def __init__(self) -> None:
        self.asking = Lock()
        self.answers: list[Answer] = []


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
                with _merges.noted(repo, target, head):
                    question.answers.append(self.function(repo, target, head))
            return question.answers[0]


def _noting_rebases(repo: GitRepo, target: str, head: str) -> Mergeability:
    found = _ask_mergeability(repo, target, head)
    if found.rebase_too_slow:
        _rebases.note(repo, target, head)
    return found


_mergeability: Final = _Answers(_noting_rebases, 1_024)
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


@contextmanager
def building(repo: GitRepo, strategy: Strategy, target: str, head: str) -> Iterator[None]:
    """Inside, the two are merged by `merge.build`. What took too long, here or for the answers
    above, is a `GitTimeout` at once for ten minutes.

    A fast-forward merges nothing, so that it is never too slow.
    """
    if strategy is Strategy.FAST_FORWARD:
        yield
    elif strategy is Strategy.REBASE:
        _merges.check(repo, target, head)
        with _rebases.noted(repo, target, head):
            yield
    else:
        with _merges.noted(repo, target, head):
            yield
