"""Repositories and the heads of their refs.

Everything that reads need of git is stored here when a push or a merge happens, so that no list
and no record runs git.
"""

from apps.repos.models.commit import CommitSearch, NamedCommit
from apps.repos.models.fork import Fork, ForkQuerySet, ForkStatus
from apps.repos.models.protection import (
    MOST_PROTECTIONS,
    PATTERN_MAX,
    REQUIRED_MAX,
    Approver,
    Protection,
    ProtectionQuerySet,
    protections_of,
    protects,
)
from apps.repos.models.ref import UNREAD, PushJournal, Ref, RefQuerySet
from apps.repos.models.repo import (
    BRANCHES,
    HEAD_DUE,
    RANK,
    TAGS,
    UNTIDY,
    FormerRepoSlug,
    Repo,
    RepoPath,
    RepoQuerySet,
    Visibility,
)

__all__ = [
    "BRANCHES",
    "HEAD_DUE",
    "MOST_PROTECTIONS",
    "PATTERN_MAX",
    "RANK",
    "REQUIRED_MAX",
    "TAGS",
    "UNREAD",
    "UNTIDY",
    "Approver",
    "CommitSearch",
    "Fork",
    "ForkQuerySet",
    "ForkStatus",
    "FormerRepoSlug",
    "NamedCommit",
    "Protection",
    "ProtectionQuerySet",
    "PushJournal",
    "Ref",
    "RefQuerySet",
    "Repo",
    "RepoPath",
    "RepoQuerySet",
    "Visibility",
    "protections_of",
    "protects",
]
