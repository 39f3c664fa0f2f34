"""What the kind, priority and status of a thread and the status of a reply may be."""

from __future__ import annotations

from enum import StrEnum


class ThreadKind(StrEnum):
    DISCUSSION = "discussion"
    ISSUE = "issue"
    QUESTION = "question"
    PROPOSAL = "proposal"
    ANNOUNCEMENT = "announcement"
    PULL = "pull"
    """The companion of a pull, which the system opens with it; people cannot choose it."""


class Priority(StrEnum):
    NORMAL = "normal"
    LOW = "low"
    HIGH = "high"
    URGENT = "urgent"


class ThreadStatus(StrEnum):
    OPEN = "open"
    IN_PROGRESS = "in_progress"
    RESOLVED = "resolved"
    CLOSED = "closed"


class ReplyStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
