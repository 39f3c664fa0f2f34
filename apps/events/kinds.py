"""The kinds of events and of pings."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class DescribedKind(StrEnum):
    """A kind with a phrase for people: the action, without its actor."""

    words: str
    sentence: str

    def __new__(cls, kind: str, words: str, sentence: str = "") -> Self:
        member = str.__new__(cls, kind)
        member._value_ = kind
        member.words = words
        member.sentence = sentence
        return member


class Kind(DescribedKind):
    """The kinds of events: the kind, its phrase, and its sentence.

    The subject of the event follows the phrase. The sentence contains it: names in braces are the
    `PARTS` of `sentences.py`.
    """

    TEAM_CREATED = "team-created", "created the team", "created the team {team}"
    TEAM_UPDATED = "team-updated", "changed the team", "changed the team {team}: {changed}"
    TEAM_DELETED = "team-deleted", "deleted a team", "deleted the team {path}"
    TEAM_RESTORED = "team-restored", "restored a team", "restored the team {team}"
    MEMBER_ADDED = (
        "member-added",
        "added a member to the team",
        "added {person} to the team {team} as {role}",
    )
    MEMBER_UPDATED = (
        "member-updated",
        "gave a member of the team another role",
        "made {person} {role} of the team {team}",
    )
    MEMBER_REMOVED = (
        "member-removed",
        "removed a member from the team",
        "removed {person} from the team {team}",
    )
    REPO_CREATED = "repo-created", "created the repository", "created the repository {repo}"
    REPO_UPDATED = (
        "repo-updated",
        "changed the repository",
        "changed the repository {repo}: {changed}",
    )
    REPO_DELETED = (
        "repo-deleted",
        "deleted a repository",
        "deleted the repository {path}",
    )
    REPO_RESTORED = (
        "repo-restored",
        "restored a repository",
        "restored the repository {repo}",
    )
    REPO_IMPORTED = (
        "repo-imported",
        "imported the repository",
        "imported the repository {repo}",
    )
    FORK_CREATED = "fork-created", "forked the repository", "made the fork {repo}"
    FORK_FAILED = (
        "fork-failed",
        "asked for a fork that could not be made",
        "asked for a fork that could not be made",
    )
    BRANCH_CREATED = (
        "branch-created",
        "pushed a new branch",
        "pushed the new branch {ref} to {repo}",
    )
    BRANCH_PUSHED = "branch-pushed", "pushed to a branch", "pushed {commits} to {ref} in {repo}"
    BRANCH_DELETED = "branch-deleted", "deleted a branch", "deleted the branch {ref} in {repo}"
    TAG_CREATED = "tag-created", "pushed a new tag", "pushed the tag {ref} to {repo}"
    TAG_DELETED = "tag-deleted", "deleted a tag", "deleted the tag {ref} in {repo}"
    COMMIT_FORGOTTEN = (
        "commit-forgotten",
        "had a commit removed for good",
        "removed the commit {sha} from {repo} for good",
    )
    PROTECTION_CREATED = "protection-created", "protected a branch", "protected {branch} in {repo}"
    PROTECTION_UPDATED = (
        "protection-updated",
        "changed the protection of a branch",
        "changed the protection of {branch} in {repo}",
    )
    PROTECTION_DELETED = (
        "protection-deleted",
        "ended the protection of a branch",
        "ended the protection of {branch} in {repo}",
    )
    APPROVER_ADDED = (
        "approver-added",
        "added an approver to the protection of a branch",
        "made {person} an approver of {branch} in {repo}",
    )
    APPROVER_REMOVED = (
        "approver-removed",
        "removed an approver from the protection of a branch",
        "removed {person} from the approvers of {branch} in {repo}",
    )
    STATUS_CREATED = (
        "status-created",
        "reported a status of a commit",
        "reported {context} on {sha} in {repo} as {state}",
    )
    PULL_CREATED = "pull-created", "opened a pull", "opened {subject}"
    PULL_UPDATED = "pull-updated", "edited the pull", "edited {subject}"
    PULL_PUSHED = "pull-pushed", "pushed to the pull", "pushed to {subject}"
    PULL_TARGET_CHANGED = (
        "pull-target-changed",
        "changed the target branch of the pull",
        "changed the target branch of {subject} to {target}",
    )
    PULL_DRAFTED = "pull-drafted", "made the pull a draft", "made a draft of {subject}"
    PULL_READIED = "pull-readied", "marked the pull as ready", "marked as ready {subject}"
    PULL_CLOSED = "pull-closed", "closed the pull", "closed {subject}"
    PULL_REOPENED = "pull-reopened", "reopened the pull", "reopened {subject}"
    PULL_MERGED = "pull-merged", "merged the pull", "merged {subject} into {target}"
    AUTO_MERGE_SET = (
        "auto-merge-set",
        "set the pull to merge when it is ready",
        "set {subject} to merge when it is ready",
    )
    AUTO_MERGE_ENDED = (
        "auto-merge-ended",
        "ended the auto-merge of the pull",
        "ended the auto-merge of {subject}: {reason}",
    )
    REVIEW_CREATED = "review-created", "reviewed the pull", "{decided} {subject}"
    REVIEW_UPDATED = (
        "review-updated",
        "changed a review of the pull",
        "changed a review of {subject}",
    )
    REVIEW_DISMISSED = (
        "review-dismissed",
        "dismissed a review of the pull",
        "dismissed a review of {subject}",
    )
    REVIEW_DELETED = (
        "review-deleted",
        "deleted a review of the pull",
        "deleted a review of {subject}",
    )
    REVIEW_REQUESTED = (
        "review-requested",
        "asked for a review of the pull",
        "asked {person} to review {subject}",
    )
    REVIEW_REQUEST_REMOVED = (
        "review-request-removed",
        "took back a request for a review of the pull",
        "no longer asks {person} to review {subject}",
    )
    THREAD_CREATED = "thread-created", "started a thread", "started {subject}"
    THREAD_UPDATED = "thread-updated", "edited the thread", "edited the thread {subject}"
    THREAD_STATUS_CHANGED = (
        "thread-status-changed",
        "changed the status of the thread",
        "marked {subject} as {after}",
    )
    THREAD_DELETED = "thread-deleted", "deleted a thread", "deleted the thread {subject}"
    REPLY_CREATED = "reply-created", "replied", "replied in {subject}"
    REPLY_UPDATED = "reply-updated", "edited a reply", "edited a reply in {subject}"
    REPLY_DELETED = "reply-deleted", "deleted a reply", "deleted a reply in {subject}"
    TOKEN_CREATED = "token-created", "made an API token", "made the API token {name}"
    TOKEN_ROTATED = (
        "token-rotated",
        "gave an API token a new text",
        "gave the API token {name} a new text",
    )
    TOKEN_REVOKED = "token-revoked", "revoked an API token", "revoked the API token {name}"
    TOKEN_DELETED = "token-deleted", "deleted an API token", "deleted the API token {name}"
    TOKEN_EXPIRING = (
        "token-expiring",
        "reminded of an API token that expires soon",
        "reminded of the API token {name}, which expires soon",
    )
    SSH_KEY_CREATED = "ssh-key-created", "added an SSH key", "added the SSH key {name}"
    SSH_KEY_DELETED = "ssh-key-deleted", "deleted an SSH key", "deleted the SSH key {name}"
    USER_JOINED = "user-joined", "joined", "joined"
    USER_UPDATED = (
        "user-updated",
        "changed an account",
        "changed the account of {person}: {changed}",
    )
    USER_DEACTIVATED = (
        "user-deactivated",
        "deactivated an account",
        "deactivated the account of {person}",
    )
    USER_DELETED = "user-deleted", "deleted an account", "deleted the account of {person}"
    USER_RESTORED = "user-restored", "restored an account", "restored the account of {person}"
    INVITE_CREATED = "invite-created", "invited somebody", "invited somebody"
    INVITE_UPDATED = "invite-updated", "changed an invite", "changed an invite"
    INVITE_ACCEPTED = "invite-accepted", "accepted an invite", "accepted an invite"
    INVITE_DELETED = "invite-deleted", "deleted an invite", "deleted an invite"
    SITE_SETTINGS_UPDATED = (
        "site-settings-updated",
        "changed the settings of the site",
        "changed the settings of the site: {changed}",
    )
    RATE_LIMIT_CREATED = (
        "rate-limit-created",
        "added a rate limit",
        "added a rate limit for {scope}",
    )
    RATE_LIMIT_UPDATED = (
        "rate-limit-updated",
        "changed a rate limit",
        "changed the rate limit for {scope}",
    )
    RATE_LIMIT_DELETED = (
        "rate-limit-deleted",
        "lifted a rate limit",
        "lifted the rate limit for {scope}",
    )
    WEBHOOK_CREATED = "webhook-created", "added a webhook", "added a {webhook}"
    WEBHOOK_UPDATED = (
        "webhook-updated",
        "changed a webhook",
        "changed a {webhook}: {changed}",
    )
    WEBHOOK_DELETED = "webhook-deleted", "deleted a webhook", "deleted a webhook"
    WEBHOOK_DISABLED = (
        "webhook-disabled",
        "disabled a webhook",
        "disabled a {webhook}, because its receiver {failure}",
    )


ACTIVITY = {
    Kind.PULL_CREATED: "pulls_created",
    Kind.PULL_MERGED: "pulls_merged",
    Kind.REVIEW_CREATED: "reviews_created",
    Kind.THREAD_CREATED: "threads_created",
    Kind.REPLY_CREATED: "replies_created",
    Kind.BRANCH_CREATED: "pushes",
    Kind.BRANCH_PUSHED: "pushes",
}
"""The kinds of events that count as activity, and the total in which each counts."""


class AuditKind(DescribedKind):
    """The kinds of entries of the audit log that are no events."""

    SIGNED_IN = "signed-in", "signed in"
    SIGN_IN_REFUSED = "sign-in-refused", "was refused to sign in"
    SIGNED_OUT = "signed-out", "signed out"


NOT_AUDITED = frozenset(
    {
        Kind.FORK_CREATED,
        Kind.FORK_FAILED,
        Kind.BRANCH_CREATED,
        Kind.BRANCH_PUSHED,
        Kind.BRANCH_DELETED,
        Kind.TAG_CREATED,
        Kind.TAG_DELETED,
        Kind.STATUS_CREATED,
        Kind.PULL_CREATED,
        Kind.PULL_UPDATED,
        Kind.PULL_PUSHED,
        Kind.PULL_TARGET_CHANGED,
        Kind.PULL_DRAFTED,
        Kind.PULL_READIED,
        Kind.PULL_CLOSED,
        Kind.PULL_REOPENED,
        Kind.PULL_MERGED,
        Kind.AUTO_MERGE_SET,
        Kind.AUTO_MERGE_ENDED,
        Kind.REVIEW_CREATED,
        Kind.REVIEW_UPDATED,
        Kind.REVIEW_DISMISSED,
        Kind.REVIEW_DELETED,
        Kind.REVIEW_REQUESTED,
        Kind.REVIEW_REQUEST_REMOVED,
        Kind.THREAD_CREATED,
        Kind.THREAD_UPDATED,
        Kind.THREAD_STATUS_CHANGED,
        Kind.THREAD_DELETED,
        Kind.REPLY_CREATED,
        Kind.REPLY_UPDATED,
        Kind.REPLY_DELETED,
        Kind.TOKEN_EXPIRING,
    }
)
"""The kinds of events that leave no entry in the audit log: work on code and conversations, which
the event log has, and a reminder. All others, also those of new versions, leave one.
"""
AUDITED = (*(kind for kind in Kind if kind not in NOT_AUDITED), *AuditKind)
"""The kinds of entries of the audit log."""


class PingKind(DescribedKind):
    """The reasons to ping a person, who is `you` in the phrase. The first reason takes priority."""

    MENTION = "mention", "mentioned you"
    REVIEW_REQUESTED = "review_requested", "requested your review"
    REPLY = "reply", "replied to you"
    ADDED = "added", "added you to the team"
    AUTO_MERGE_ENDED = "auto_merge_ended", "ended your auto-merge"
    TOKEN_EXPIRING = "token_expiring", "reminds you that this API token expires soon"
    WEBHOOK_DISABLED = "webhook_disabled", "disabled a webhook of yours"


PRIORITY = {kind: number for number, kind in enumerate(PingKind)}
PING_WORDS = {str(kind): kind.words for kind in PingKind}
WORDS = {str(kind): kind.words for kind in Kind}
WORDS |= {str(kind): kind.words for kind in AuditKind}


def words_of(kind: str) -> str:
    """The phrase of a kind. A kind from a newer version has its name as phrase."""
    return WORDS.get(kind, kind.replace("-", " "))
