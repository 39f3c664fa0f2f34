"""The closed vocabularies of threads and replies, defaults first (behaviour.md §2)."""

from __future__ import annotations

from enum import StrEnum


class ThreadKind(StrEnum):
    DISCUSSION = "discussion"
    ISSUE = "issue"
    QUESTION = "question"
    PROPOSAL = "proposal"
    ANNOUNCEMENT = "announcement"
    PULL = "pull"
    """Made by the system only: the companion of a pull."""


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
