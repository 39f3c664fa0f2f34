"""The kinds of events and of pings."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class DescribedKind(StrEnum):
    """A kind with a phrase for people: the action, without its actor."""

    words: str

    def __new__(cls, kind: str, words: str) -> Self:
        member = str.__new__(cls, kind)
        member._value_ = kind
        member.words = words
        return member


class Kind(DescribedKind):
    """The kinds of events. The subject of the event follows the phrase."""

    TEAM_CREATED = "team-created", "created the team"
    TEAM_UPDATED = "team-updated", "changed the team"
    MEMBER_ADDED = "member-added", "added a member to the team"
    MEMBER_UPDATED = "member-updated", "gave a member of the team another role"
    MEMBER_REMOVED = "member-removed", "removed a member from the team"
    REPO_CREATED = "repo-created", "created the repository"
    REPO_UPDATED = "repo-updated", "changed the repository"
    FORK_CREATED = "fork-created", "forked the repository"
    FORK_FAILED = "fork-failed", "asked for a fork that could not be made"
    BRANCH_CREATED = "branch-created", "pushed a new branch"
    BRANCH_PUSHED = "branch-pushed", "pushed to a branch"
    BRANCH_DELETED = "branch-deleted", "deleted a branch"
    TAG_CREATED = "tag-created", "pushed a new tag"
    TAG_DELETED = "tag-deleted", "deleted a tag"
    COMMIT_FORGOTTEN = "commit-forgotten", "had a commit removed for good"
    PROTECTION_CREATED = "protection-created", "protected a branch"
    PROTECTION_UPDATED = "protection-updated", "changed the protection of a branch"
    PROTECTION_DELETED = "protection-deleted", "ended the protection of a branch"
    APPROVER_ADDED = "approver-added", "added an approver to the protection of a branch"
    APPROVER_REMOVED = "approver-removed", "removed an approver from the protection of a branch"
    PULL_CREATED = "pull-created", "opened a pull"
    PULL_UPDATED = "pull-updated", "edited the pull"
    PULL_PUSHED = "pull-pushed", "pushed to the pull"
    PULL_DRAFTED = "pull-drafted", "made the pull a draft"
    PULL_READIED = "pull-readied", "marked the pull as ready"
    PULL_CLOSED = "pull-closed", "closed the pull"
    PULL_REOPENED = "pull-reopened", "reopened the pull"
    PULL_MERGED = "pull-merged", "merged the pull"
    REVIEW_CREATED = "review-created", "reviewed the pull"
    REVIEW_UPDATED = "review-updated", "changed a review of the pull"
    REVIEW_DISMISSED = "review-dismissed", "dismissed a review of the pull"
    REVIEW_DELETED = "review-deleted", "deleted a review of the pull"
    THREAD_CREATED = "thread-created", "started a thread"
    THREAD_UPDATED = "thread-updated", "edited the thread"
    THREAD_STATUS_CHANGED = "thread-status-changed", "changed the status of the thread"
    THREAD_DELETED = "thread-deleted", "deleted a thread"
    REPLY_CREATED = "reply-created", "replied"
    REPLY_UPDATED = "reply-updated", "edited a reply"
    REPLY_DELETED = "reply-deleted", "deleted a reply"
    TOKEN_CREATED = "token-created", "made an API token"
    TOKEN_REVOKED = "token-revoked", "revoked an API token"
    TOKEN_DELETED = "token-deleted", "deleted an API token"
    USER_JOINED = "user-joined", "joined"
    USER_UPDATED = "user-updated", "changed an account"
    USER_DEACTIVATED = "user-deactivated", "deactivated an account"
    INVITE_CREATED = "invite-created", "invited somebody"
    INVITE_UPDATED = "invite-updated", "changed an invite"
    INVITE_ACCEPTED = "invite-accepted", "accepted an invite"
    INVITE_DELETED = "invite-deleted", "deleted an invite"
    SITE_SETTINGS_UPDATED = "site-settings-updated", "changed the settings of the site"
    RATE_LIMIT_CREATED = "rate-limit-created", "added a rate limit"
    RATE_LIMIT_UPDATED = "rate-limit-updated", "changed a rate limit"
    RATE_LIMIT_DELETED = "rate-limit-deleted", "lifted a rate limit"


class PingKind(DescribedKind):
    """The reasons to ping a person, who is `you` in the phrase. The first reason takes priority."""

    MENTION = "mention", "mentioned you"
    REVIEW_REQUESTED = "review_requested", "requested your review"
    REPLY = "reply", "replied to you"
    ADDED = "added", "added you to the team"


PRIORITY = {kind: number for number, kind in enumerate(PingKind)}
PING_WORDS = {str(kind): kind.words for kind in PingKind}
WORDS = {str(kind): kind.words for kind in Kind}


def words_of(kind: str) -> str:
    """The phrase of a kind. A kind from a newer version has its name as phrase."""
    return WORDS.get(kind, kind.replace("-", " "))
