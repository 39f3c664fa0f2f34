"""Pull requests, their versions and reviews, and merges under way.

Title, body, author and time of creation are those of the companion thread, which alone stores them.
What git knows of a pull is stored when a push or a merge happens; reads ask git only whether it can
be merged, whether reviews are stale, and for patches.
"""

from apps.pulls.models.pull import (
    ACTIVE,
    IS_ACTIVE,
    IS_UNCHECKED,
    JOINED,
    MIRROR,
    PULL_ROW,
    REF_MAX,
    SHA_MAX,
    GitState,
    MergeAttempt,
    Pull,
    PullQuerySet,
    PullStatus,
)
from apps.pulls.models.review import Review, ReviewQuerySet, ReviewStatus
from apps.pulls.models.version import IS_DUE, PullVersion, VersionContents

__all__ = [
    "ACTIVE",
    "IS_ACTIVE",
    "IS_DUE",
    "IS_UNCHECKED",
    "JOINED",
    "MIRROR",
    "PULL_ROW",
    "REF_MAX",
    "SHA_MAX",
    "GitState",
    "MergeAttempt",
    "Pull",
    "PullQuerySet",
    "PullStatus",
    "PullVersion",
    "Review",
    "ReviewQuerySet",
    "ReviewStatus",
    "VersionContents",
]
