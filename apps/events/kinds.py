"""The closed vocabulary of event kinds."""

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
    FORK_CREATED = "fork-created"
    FORK_FAILED = "fork-failed"
    BRANCH_CREATED = "branch-created"
    BRANCH_PUSHED = "branch-pushed"
    BRANCH_DELETED = "branch-deleted"
    TAG_CREATED = "tag-created"
    TAG_DELETED = "tag-deleted"
    PROTECTION_CREATED = "protection-created"
    PROTECTION_UPDATED = "protection-updated"
    PROTECTION_DELETED = "protection-deleted"
    APPROVER_ADDED = "approver-added"
    APPROVER_REMOVED = "approver-removed"
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
    USER_UPDATED = "user-updated"
    USER_DEACTIVATED = "user-deactivated"
    INVITE_CREATED = "invite-created"
    INVITE_UPDATED = "invite-updated"
    INVITE_ACCEPTED = "invite-accepted"
    INVITE_DELETED = "invite-deleted"
    SITE_SETTINGS_UPDATED = "site-settings-updated"
    RATE_LIMIT_CREATED = "rate-limit-created"
    RATE_LIMIT_UPDATED = "rate-limit-updated"
    RATE_LIMIT_DELETED = "rate-limit-deleted"


WORDS: dict[str, str] = {
    Kind.TEAM_CREATED: "created the team",
    Kind.TEAM_UPDATED: "changed the team",
    Kind.MEMBER_ADDED: "added a member to the team",
    Kind.MEMBER_UPDATED: "gave a member of the team another role",
    Kind.MEMBER_REMOVED: "removed a member from the team",
    Kind.REPO_CREATED: "created the repository",
    Kind.REPO_UPDATED: "changed the repository",
    Kind.FORK_CREATED: "forked the repository",
    Kind.FORK_FAILED: "asked for a fork that could not be made",
    Kind.BRANCH_CREATED: "pushed a new branch",
    Kind.BRANCH_PUSHED: "pushed to a branch",
    Kind.BRANCH_DELETED: "deleted a branch",
    Kind.TAG_CREATED: "pushed a new tag",
    Kind.TAG_DELETED: "deleted a tag",
    Kind.PROTECTION_CREATED: "protected a branch",
    Kind.PROTECTION_UPDATED: "changed the protection of a branch",
    Kind.PROTECTION_DELETED: "ended the protection of a branch",
    Kind.APPROVER_ADDED: "added an approver to the protection of a branch",
    Kind.APPROVER_REMOVED: "removed an approver from the protection of a branch",
    Kind.PULL_CREATED: "opened a pull request",
    Kind.PULL_UPDATED: "edited the pull request",
    Kind.PULL_PUSHED: "pushed to the pull request",
    Kind.PULL_DRAFTED: "made the pull request a draft",
    Kind.PULL_READIED: "marked the pull request as ready",
    Kind.PULL_CLOSED: "closed the pull request",
    Kind.PULL_REOPENED: "reopened the pull request",
    Kind.PULL_MERGED: "merged the pull request",
    Kind.REVIEW_CREATED: "reviewed the pull request",
    Kind.REVIEW_UPDATED: "changed a review of the pull request",
    Kind.REVIEW_DISMISSED: "dismissed a review of the pull request",
    Kind.REVIEW_DELETED: "deleted a review of the pull request",
    Kind.THREAD_CREATED: "started a thread",
    Kind.THREAD_UPDATED: "edited the thread",
    Kind.THREAD_STATUS_CHANGED: "changed the status of the thread",
    Kind.THREAD_DELETED: "deleted a thread",
    Kind.REPLY_CREATED: "replied",
    Kind.REPLY_UPDATED: "edited a reply",
    Kind.REPLY_DELETED: "deleted a reply",
    Kind.TOKEN_CREATED: "made an API token",
    Kind.TOKEN_REVOKED: "revoked an API token",
    Kind.TOKEN_DELETED: "deleted an API token",
    Kind.USER_JOINED: "joined",
    Kind.USER_UPDATED: "changed an account",
    Kind.USER_DEACTIVATED: "deactivated an account",
    Kind.INVITE_CREATED: "invited somebody",
    Kind.INVITE_UPDATED: "changed an invite",
    Kind.INVITE_ACCEPTED: "accepted an invite",
    Kind.INVITE_DELETED: "deleted an invite",
    Kind.SITE_SETTINGS_UPDATED: "changed the settings of the site",
    Kind.RATE_LIMIT_CREATED: "added a rate limit",
    Kind.RATE_LIMIT_UPDATED: "changed a rate limit",
    Kind.RATE_LIMIT_DELETED: "lifted a rate limit",
}
"""What its actor did, for people; the page of the event's subject is linked behind it."""


def words_of(kind: str) -> str:
    """What is said of a kind; of one that only a newer version knows, what it is called."""
    return WORDS.get(kind, kind.replace("-", " "))
