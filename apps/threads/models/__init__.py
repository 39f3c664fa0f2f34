"""Threads and their nested replies.

A pull owns a companion thread of kind `pull` with the same number (behaviour.md trap 7). A tree is
read in one query, in order: each reply stores its `path` and counts its live descendants.
"""

from apps.threads.kinds import Priority, ReplyStatus, ThreadKind, ThreadStatus
from apps.threads.models.participants import Participants
from apps.threads.models.reply import Reply, ReplyQuerySet, reply_rows
from apps.threads.models.thread import Thread, ThreadQuerySet, segment, thread_rows

__all__ = [
    "Participants",
    "Priority",
    "Reply",
    "ReplyQuerySet",
    "ReplyStatus",
    "Thread",
    "ThreadKind",
    "ThreadQuerySet",
    "ThreadStatus",
    "reply_rows",
    "segment",
    "thread_rows",
]
