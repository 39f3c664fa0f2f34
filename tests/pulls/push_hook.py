"""A push hook that causes trouble, for tests that add it to `settings.AFTER_PUSH`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from apps.events.record import Change
from apps.git.cache import GitFacts
from apps.repos.models import Repo
from apps.repos.rules import RefMove

preparing: list[Callable[[], object]] = []
"""Each call of `prepare` removes and calls the last of these."""
applying: list[Callable[[], object]] = []
"""Each call of `apply` removes and calls the last of these."""
failing: list[Exception] = []
"""Each call of `apply` removes and raises the last of these."""


def linked_refs(repo: Repo, names: Collection[str]) -> set[str]:
    return set()


def prepare(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    if preparing:
        preparing.pop()()


def apply(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
    if applying:
        applying.pop()()
    if failing:
        raise failing.pop()
    return []
