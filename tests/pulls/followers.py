"""A follower of pushes that makes trouble, for tests that name it in `settings.AFTER_PUSH`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apps.repos.models import Repo
from apps.repos.rules import RefMove

prepared: list[Callable[[], None]] = []
"""What happens at the next prepares, each once."""
following: list[Callable[[], None]] = []
"""What happens inside the next follows, each once."""
followed: list[Exception] = []
"""What the next follows fail with, each once."""


def prepare(repo: Repo, moves: Sequence[RefMove]) -> None:
    if prepared:
        prepared.pop()()


def follow(repo: Repo, moves: Sequence[RefMove]) -> list[Callable[[], None]]:
    if following:
        following.pop()()
    if followed:
        raise followed.pop()
    return []
