"""Threads and their nested replies.

Each pull has a companion thread: one of kind `pull`, with the same number. A tree of replies is
read in one query, in order: each reply stores its `path` and counts its live descendants.
"""

from apps.threads.kinds import Priority, ReplyStatus, ThreadKind, ThreadStatus
from apps.threads.models.participants import Participants
from apps.threads.models.reply import Reply, ReplyQuerySet, ReplyRow
from apps.threads.models.thread import (
    LISTED,
    Thread,
    ThreadQuerySet,
    ThreadRow,
    segment,
)

__all__ = [
    "LISTED",
    "Participants",
    "Priority",
    "Reply",
    "ReplyQuerySet",
    "ReplyRow",
    "ReplyStatus",
    "Thread",
    "ThreadKind",
    "ThreadQuerySet",
    "ThreadRow",
    "ThreadStatus",
    "segment",
]
