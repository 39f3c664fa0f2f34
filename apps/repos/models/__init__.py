"""Repositories and the heads of their refs.

Everything that reads need of git is stored here when a push or a merge happens, so that no list
and no record runs git.
"""

from apps.repos.models.fork import Fork, ForkQuerySet, ForkStatus
from apps.repos.models.protection import (
    MOST_PROTECTIONS,
    PATTERN_MAX,
    REQUIRED_MAX,
    Approver,
    Protection,
    ProtectionQuerySet,
)
from apps.repos.models.ref import PushJournal, Ref
from apps.repos.models.repo import BRANCHES, RANK, TAGS, UNTIDY, FormerRepoSlug, Repo, Visibility

__all__ = [
    "BRANCHES",
    "MOST_PROTECTIONS",
    "PATTERN_MAX",
    "RANK",
    "REQUIRED_MAX",
    "TAGS",
    "UNTIDY",
    "Approver",
    "Fork",
    "ForkQuerySet",
    "ForkStatus",
    "FormerRepoSlug",
    "Protection",
    "ProtectionQuerySet",
    "PushJournal",
    "Ref",
    "Repo",
    "Visibility",
]
