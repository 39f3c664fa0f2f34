"""Repositories and the heads of their refs.

Everything that reads need of git is stored here when a push or a merge happens, so that no list
and no record runs git (behaviour.md §3).
"""

from apps.repos.models.ref import REF_MAX, PushJournal, Ref
from apps.repos.models.repo import BRANCHES, TAGS, FormerRepoSlug, Repo, RepoQuerySet, Visibility

__all__ = [
    "BRANCHES",
    "REF_MAX",
    "TAGS",
    "FormerRepoSlug",
    "PushJournal",
    "Ref",
    "Repo",
    "RepoQuerySet",
    "Visibility",
]
