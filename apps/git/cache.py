"""git's answers in memory. An answer about full object names never changes.

`GitFacts` holds the answers of one action, which asks before it takes a lock. The other caches are
of the server process: their answers are needed again and again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final, Generic, ParamSpec, TypeVar, cast

from apps.git.merge import Mergeability, Strategy
from apps.git.merge import mergeability as _ask_mergeability
from apps.git.merge import merged_tree as _ask_merged_tree
from apps.git.repo import GitRepo
from apps.git.run import GitTimeout

P = ParamSpec("P")
T = TypeVar("T")
SLOW_SECONDS: Final = 600.0
"""Seconds in which a merge that timed out is not tried again."""


class GitFacts:
    """Cached answers of git about full object names. Such an answer never changes.

    Code that is going to take a lock asks its questions first. Asked again under the lock, the same
    questions start no git process; new ones do. Errors are not cached.
    """

    def __init__(self) -> None:
        self._answers: dict[object, object] = {}

    def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of this package, or return its cached answer.

        For example: `ask(GitRepo.distance, repo, old, new)`.
        """
        key = (question, args, tuple(kwargs.items()))
        if key not in self._answers:
            self._answers[key] = question(*args, **kwargs)
        return cast(T, self._answers[key])

    def know(self, answer: T, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        """Cache an answer that the caller knows without git, for example of a commit it created."""
        self._answers[question, args, tuple(kwargs.items())] = answer

    def knows(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether the answer is cached."""
        return (question, args, tuple(kwargs.items())) in self._answers


class _Timeouts:
    """Pairs of commits whose merge timed out, with the time at which it may be tried again."""

    def __init__(self) -> None:
        self.until: dict[tuple[Path, str, str], float] = {}

    def check(self, repo: GitRepo, target: str, head: str) -> None:
        if monotonic() < self.until.get((repo.path, target, head), 0.0):
            raise GitTimeout(f"merging {head} into {target} timed out recently")

    @contextmanager
    def recorded(self, repo: GitRepo, target: str, head: str) -> Iterator[None]:
        """Record a timeout of the block. Raises `GitTimeout` at once if one is recorded already."""
        self.check(repo, target, head)
        try:
            yield
        except GitTimeout:
            self.record(repo, target, head)
            raise

    def record(self, repo: GitRepo, target: str, head: str) -> None:
        now = monotonic()
        current = {pair: until for pair, until in [*self.until.items()] if until > now}
        self.until = {**current, (repo.path, target, head): now + SLOW_SECONDS}


_slow_merges: Final = _Timeouts()
_slow_rebases: Final = _Timeouts()


class _Question(Generic[T]):
    """A question about two commits. `answers` has one element once it is answered."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.answers: list[T] = []


class _AnswerCache(Generic[T]):
    """A cache of a function of two commits. For each pair one thread asks git, and others wait for
    its answer. Of errors only `GitTimeout` is cached.
    """

    def __init__(self, function: Callable[[GitRepo, str, str], T], most: int) -> None:
        def begin(repo: GitRepo, target: str, head: str) -> _Question[T]:
            return _Question()

        self.function = function
        self.lock = Lock()
        self.question = lru_cache(most)(begin)

    def get(self, repo: GitRepo, target: str, head: str) -> T:
        with self.lock:  # without it, two threads could create the same question
            question = self.question(repo, target, head)
        with question.lock:
            if not question.answers:
                with _slow_merges.recorded(repo, target, head):
                    question.answers.append(self.function(repo, target, head))
            return question.answers[0]


def _record_slow_rebases(repo: GitRepo, target: str, head: str) -> Mergeability:
    answer = _ask_mergeability(repo, target, head)
    if answer.rebase_too_slow:
        _slow_rebases.record(repo, target, head)
    return answer


_mergeability: Final = _AnswerCache(_record_slow_rebases, 1_024)
_merged_tree: Final = _AnswerCache(_ask_merged_tree, 4_096)


def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """Cached `merge.mergeability`. After a timeout it raises `GitTimeout` at once for ten minutes.

    Clients poll whether a pull can be merged. Without the cache each poll would start several git
    processes: three for each commit that a rebase replays. An answer names up to 100 files.
    """
    return _mergeability.get(repo, target, head)


def merged_tree(repo: GitRepo, target: str, head: str) -> str | None:
    """Cached `merge.merged_tree`. After a timeout it raises `GitTimeout` at once for ten minutes.

    Reads that decide whether approvals still count need it for the same few commits.
    """
    return _merged_tree.get(repo, target, head)


@contextmanager
def building(repo: GitRepo, strategy: Strategy, target: str, head: str) -> Iterator[None]:
    """Run `merge.build` in this block. If the same merge timed out in the last ten minutes, here or
    in the functions above, it raises `GitTimeout` at once.

    A fast-forward merges no trees and is never refused.
    """
    if strategy is Strategy.FAST_FORWARD:
        yield
    elif strategy is Strategy.REBASE:
        _slow_merges.check(repo, target, head)
        with _slow_rebases.recorded(repo, target, head):
            yield
    else:
        with _slow_merges.recorded(repo, target, head):
            yield
