"""A follower of pushes that makes trouble, for tests that name it in `settings.AFTER_PUSH`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from apps.events.record import Change
from apps.git.cache import GitFacts
from apps.repos.models import Repo
from apps.repos.rules import RefMove

reading: list[Callable[[], object]] = []
"""Called by the next reads, each once."""
following: list[Callable[[], object]] = []
"""Called inside the next follows, each once."""
failing: list[Exception] = []
"""Raised by the next follows, each once."""


def together(repo: Repo, names: Collection[str]) -> set[str]:
    return set()


def read(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> None:
    if reading:
        reading.pop()()


def follow(repo: Repo, moves: Sequence[RefMove], facts: GitFacts) -> list[Change]:
    if following:
        following.pop()()
    if failing:
        raise failing.pop()
    return []
