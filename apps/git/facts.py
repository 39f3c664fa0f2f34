"""git's answers, collected before a lock is taken."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


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
