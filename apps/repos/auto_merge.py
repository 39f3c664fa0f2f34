"""The functions of pulls that changes of protections and statuses call (`settings.AUTO_MERGES`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from django.conf import settings

from apps.accounts.models import User
from apps.events.record import Change, Recorded
from apps.repos.models import Repo


class AutoMerges(Protocol):
    """The functions of the module `settings.AUTO_MERGES`, for lower apps."""

    def end_under(self, repo: Repo, patterns: Collection[str], actor: User) -> list[Change]:
        """End the auto-merges of pulls whose target matches one of these patterns of protections,
        and return their events. The caller holds the repository's lock, and records the events.
        """

    def wake(self, pulls: Sequence[Recorded]) -> None:
        """Let the worker try the auto-merges of these pulls now; no statement without one."""


@cache
def auto_merges() -> AutoMerges:
    """The functions about auto-merges that lower apps call."""
    return cast("AutoMerges", import_module(settings.AUTO_MERGES))
