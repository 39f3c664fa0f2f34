"""Repositories, forks, protections and refs.

Pushes and merges store all that lists and records need of git, so that these never run git.
"""

from apps.repos.models.commit import CommitPush, CommitSearch, NamedCommit
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
    PUSHES_DUE,
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
    "PUSHES_DUE",
    "RANK",
    "REQUIRED_MAX",
    "TAGS",
    "UNREAD",
    "UNTIDY",
    "Approver",
    "CommitPush",
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
