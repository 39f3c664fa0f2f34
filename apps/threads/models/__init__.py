"""Threads and their nested replies.

Each pull has a companion thread: one of kind `pull`, with the same number. A tree of replies is
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
