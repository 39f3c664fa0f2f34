"""git's answers in memory. An answer about full object names never changes.

`GitFacts` holds the answers of one action, which asks before it takes a lock. The other caches are
of the server process: their answers are needed again and again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sys import getsizeof
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
Pair = tuple[GitRepo, str, str]
"""A repository, a target and a head."""
QUESTION_BYTES: Final = 1200
"""Roughly the bytes of a question about a pair, without the paths in its answer."""
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
        self.size = QUESTION_BYTES


class _AnswerCache(Generic[T]):
    """A cache of a function of two commits. For each pair one thread asks git, and others wait for
    its answer. Of errors only `GitTimeout` is cached.

    `paths` returns the paths in an answer. Beyond `bytes_max` the least recently used answers are
    removed.
    """

    def __init__(
        self,
        function: Callable[[GitRepo, str, str], T],
        paths: Callable[[T], Iterable[str]],
        bytes_max: int,
    ) -> None:
        self.function, self.paths, self.bytes_max = function, paths, bytes_max
        self.lock = Lock()
        self.questions: OrderedDict[Pair, _Question[T]] = OrderedDict()
        self.size = 0

    def get(self, repo: GitRepo, target: str, head: str) -> T:
        pair = repo, target, head
        question = self._question(pair)
        with question.lock:
            if not question.answers:
                with _slow_merges.recorded(*pair):
                    question.answers.append(self.function(*pair))
                self._measure(pair, question)
            return question.answers[0]

    def _question(self, pair: Pair) -> _Question[T]:
        with self.lock:
            if pair not in self.questions:
                self.questions[pair] = _Question()
                self._grow(QUESTION_BYTES)
            self.questions.move_to_end(pair)
            return self.questions[pair]

    def _measure(self, pair: Pair, question: _Question[T]) -> None:
        """Count the bytes of an answer, unless its question was removed meanwhile."""
        size = sum(map(getsizeof, self.paths(question.answers[0])))
        with self.lock:
            if self.questions.get(pair) is question:
                question.size += size
                self._grow(size)

    def _grow(self, size: int) -> None:
        """Count these bytes, and remove the oldest questions if there are too many."""
        self.size += size
        while self.size > self.bytes_max:
            _, oldest = self.questions.popitem(last=False)
            self.size -= oldest.size


def _record_slow_rebases(repo: GitRepo, target: str, head: str) -> Mergeability:
    answer = _ask_mergeability(repo, target, head)
    if answer.rebase_too_slow:
        _slow_rebases.record(repo, target, head)
    return answer


_mergeability: Final = _AnswerCache(
    _record_slow_rebases, lambda answer: answer.conflict_paths, bytes_max=8 * 1024 * 1024
)
_merged_tree: Final = _AnswerCache(_ask_merged_tree, lambda _: (), bytes_max=4 * 1024 * 1024)


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
