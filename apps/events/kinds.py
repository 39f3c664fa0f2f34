"""The closed vocabulary of event kinds (behaviour.md §5)."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    TEAM_CREATED = "team-created"
    TEAM_UPDATED = "team-updated"
    MEMBER_ADDED = "member-added"
    MEMBER_UPDATED = "member-updated"
    MEMBER_REMOVED = "member-removed"
    REPO_CREATED = "repo-created"
    REPO_UPDATED = "repo-updated"
    BRANCH_CREATED = "branch-created"
    BRANCH_PUSHED = "branch-pushed"
    BRANCH_DELETED = "branch-deleted"
    TAG_CREATED = "tag-created"
    TAG_DELETED = "tag-deleted"
    PULL_CREATED = "pull-created"
    PULL_UPDATED = "pull-updated"
    PULL_PUSHED = "pull-pushed"
    PULL_DRAFTED = "pull-drafted"
    PULL_READIED = "pull-readied"
    PULL_CLOSED = "pull-closed"
    PULL_REOPENED = "pull-reopened"
    PULL_MERGED = "pull-merged"
    REVIEW_CREATED = "review-created"
    REVIEW_UPDATED = "review-updated"
    REVIEW_DISMISSED = "review-dismissed"
    REVIEW_DELETED = "review-deleted"
    THREAD_CREATED = "thread-created"
    THREAD_UPDATED = "thread-updated"
    THREAD_STATUS_CHANGED = "thread-status-changed"
    THREAD_DELETED = "thread-deleted"
    REPLY_CREATED = "reply-created"
    REPLY_UPDATED = "reply-updated"
    REPLY_DELETED = "reply-deleted"
    TOKEN_CREATED = "token-created"  # noqa: S105 - a kind, not a secret
    TOKEN_REVOKED = "token-revoked"  # noqa: S105
    TOKEN_DELETED = "token-deleted"  # noqa: S105
    USER_JOINED = "user-joined"
