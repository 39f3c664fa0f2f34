"""git's answers, collected before a lock is taken."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class GitFacts:
    """What git has said about full object names; such an answer never changes.

    Code that will hold a lock asks its questions before it takes the lock. The same questions then
    start no git under the lock; a new question does. No error is kept.
    """

    def __init__(self) -> None:
        self._answers: dict[object, object] = {}

    def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer of a function of this package, as `ask(GitRepo.distance, repo, old, new)`."""
        key = (question, args, tuple(kwargs.items()))
        if key not in self._answers:
            self._answers[key] = question(*args, **kwargs)
        return cast(T, self._answers[key])

    def know(self, answer: T, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        """Keep an answer that follows from what was done: git need not be asked."""
        self._answers[question, args, tuple(kwargs.items())] = answer

    def knows(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether git would not be asked for this."""
        return (question, args, tuple(kwargs.items())) in self._answers
