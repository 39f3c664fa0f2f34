"""All codes of refusals with their statuses, and the codes with which an operation may answer.

Most follow from the operation: its level, its method and its path. It declares the others as
`errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from apps.core.access import Level
from apps.core.operation import Operation

CODES: dict[str, tuple[int, str]] = {
    "moved": (301, "The path has a former slug; Location has the current address."),
    "malformed_request": (400, "The body is missing, incomplete, not JSON, or not an object."),
    "inactive_user": (401, "The account behind the token has been deactivated."),
    "invalid_token": (401, "The token is unknown, expired or revoked."),
    "not_authenticated": (401, "No token was sent."),
    "account_too_young": (403, "The account is too new to make invites."),
    "cross_site_request": (403, "A browser has sent this request for another site."),
    "forbidden": (403, "The caller has no access to this."),
    "not_creator": (403, "Only the author may do this."),
    "owner_inactive": (403, "The account that owns the repository has been deactivated."),
    "person_required": (403, "Only a person may do this, and no bot."),
    "role_required": (403, "The caller's level of access is too low."),
    "second_factor_required": (403, "The team requires a second factor, and the caller has none."),
    "staff_required": (403, "Only staff may do this."),
    "token_scope": (403, "The person may do this, but not with this token."),
    "team_inactive": (403, "The team has been deactivated."),
    "not_found": (404, "There is no such record."),
    "method_not_allowed": (405, "This address does not support that method."),
    "approval_required": (409, "The target's protections lack approvals."),
    "approver_exists": (409, "This person is an approver already."),
    "bot_limit": (409, "The team has 20 bots."),
    "branch_exists": (409, "There is a branch or a tag of this name already."),
    "branch_in_use": (409, "An open or draft pull is from or into the branch."),
    "branch_missing": (409, "The source or the target branch does not exist."),
    "branch_protected": (409, "The branch is protected and changes only by merging."),
    "changes_requested": (409, "A reviewer has requested changes, and the target is protected."),
    "comments_unresolved": (409, "The target's protections require resolved comments on lines."),
    "default_branch": (409, "The default branch cannot be deleted."),
    "draft_limit": (409, "The draft has 100 comments."),
    "fast_forward_impossible": (409, "The target has commits of its own."),
    "fork_exists": (409, "This owner has a fork already, or one is being made."),
    "head_changed": (409, "The head is not the one that was expected."),
    "idempotency_in_progress": (409, "The first request with this key is under way."),
    "invalid_transition": (409, "This change of status is not possible."),
    "invite_already_accepted": (409, "The invite has been used."),
    "key_in_use": (409, "The SSH key belongs to another person or repository, or is here already."),
    "key_limit": (409, "The person or the repository has 50 SSH keys."),
    "last_owner": (409, "A team must keep at least one owner."),
    "member_exists": (409, "This person is a member already."),
    "merge_conflict": (409, "Both sides change the same lines."),
    "merge_in_progress": (409, "Another merge of this pull is under way."),
    "nothing_to_commit": (409, "The files are as requested already."),
    "nothing_to_merge": (409, "The target already has all of the changes."),
    "nothing_to_update": (409, "The source has all commits of the target already."),
    "parent_reply_deleted": (409, "The reply that this one answers has been deleted."),
    "protection_exists": (409, "This branch or pattern is protected already."),
    "pull_already_exists": (409, "An open or draft pull has this source and target."),
    "pull_already_merged": (409, "The pull has been merged."),
    "pull_closed": (409, "The pull is closed."),
    "pull_is_draft": (409, "The pull is a draft."),
    "quota_reached": (409, "The owner's repositories use all of their disk quota."),
    "rate_limit_exists": (409, "This scope has a limit already."),
    "reply_already_deleted": (409, "The reply has been deleted."),
    "repo_archived": (409, "The repository is archived."),
    "slug_taken": (409, "The name or slug is taken."),
    "statuses_required": (409, "The target's protections lack statuses of the head."),
    "strategy_differs": (409, "This strategy would give a different result than a merge."),
    "suggestion_outdated": (409, "The lines of a suggestion have changed."),
    "suggestions_overlap": (409, "Two suggestions change the same lines."),
    "target_changed": (409, "The pull has another target branch now."),
    "thread_has_replies": (409, "Other people have replied."),
    "too_many_protections": (409, "The repository has 100 protections."),
    "webhook_limit": (409, "The repository, the team or the site has 20 webhooks."),
    "payload_too_large": (413, "The body is larger than allowed."),
    "uri_too_long": (414, "Path and query are longer than 8,000 characters."),
    "unsupported_media_type": (415, "The body was not sent as application/json."),
    "approver_lacks_access": (422, "An approver or reporter must be able to read the repository."),
    "idempotency_mismatch": (422, "This key was used for another request."),
    "archive_too_large": (422, "The archive would have too many files or bytes."),
    "commit_not_found": (422, "The commit is not of a version of the pull."),
    "diff_too_large": (422, "The diff has too many files or bytes; fetch it with git."),
    "file_too_large": (422, "The file is too large for the API; fetch it with git."),
    "invalid_cursor": (422, "The cursor is not an event id."),
    "invalid_path": (422, "This is not a valid path of a file."),
    "invalid_ref": (422, "This is not a valid branch, tag or full commit name."),
    "invalid_scope": (422, "The event scope has an unknown form."),
    "invalid_url": (422, "A webhook cannot send to this address."),
    "is_directory": (422, "There is a directory at this path."),
    "line_not_found": (422, "The file has fewer lines, or these are too many."),
    "link_target_not_found": (
        422,
        "The target of a link does not exist, or the caller may not read it.",
    ),
    "no_merge_base": (422, "The two commits have no common ancestor."),
    "not_a_directory": (422, "There is no directory at this path."),
    "not_a_suggestion": (422, "The comment has no suggestion, or its lines cannot be replaced."),
    "not_a_file": (422, "There is no file at this path, or no text."),
    "parent_reply_not_found": (422, "There is no such reply in this thread."),
    "reply_too_deep": (422, "Replies may nest 50 levels deep."),
    "review_not_found": (422, "The caller has no such review of the pull."),
    "reviewer_lacks_access": (422, "A reviewer must be able to read the repository."),
    "same_branch": (422, "Source and target are the same branch."),
    "source_not_found": (422, "The source is a fork that the caller cannot read."),
    "too_expensive": (422, "git takes too long for this; ask for less."),
    "unknown_parameter": (422, "This operation has no query parameter of this name."),
    "unknown_field": (422, "The body has an unknown field."),
    "unsupported_upload_type": (422, "Content and name of the upload do not agree."),
    "user_not_found": (422, "There is no such user."),
    "validation_failed": (422, "A field or query parameter is not valid."),
    "rate_limited": (429, "A rate limit is exceeded."),
    "signup_invite_limit_reached": (429, "No more invites in these 24 hours."),
    "too_many_streams": (429, "The caller has 20 live streams open."),
    "upload_limit_reached": (429, "The caller has uploaded too much in these 24 hours."),
    "header_too_long": (431, "A header is longer than 8,000 characters."),
    "internal_error": (500, "The server has a defect, which has been logged."),
    "storage_full": (503, "The server has no disk space left; nothing was stored."),
    "unavailable": (503, "A lock or git was not available in time."),
}
"""By code; docs/api.md explains each."""
ALWAYS = (
    "invalid_token",
    "inactive_user",
    "uri_too_long",
    "rate_limited",
    "header_too_long",
    "storage_full",
    "unavailable",
)
OF_WRITES = (
    "cross_site_request",
    "malformed_request",
    "payload_too_large",
    "unsupported_media_type",
    "unknown_field",
    "unknown_parameter",
)
OF_POSTS = ("idempotency_in_progress", "idempotency_mismatch", "validation_failed")
"""Every POST accepts an `Idempotency-Key`."""
FORMER = re.compile(r"\{(team|repo)_slug\}")
"""Parts of a path that may be former slugs."""


def codes_of(operation: Operation, method: str, path: str, *, is_list: bool) -> set[str]:
    """The codes that an operation may refuse with, at a path below `/api/v1`."""
    codes = {*ALWAYS, *operation.errors}
    is_writing = method in {"POST", "PUT", "PATCH", "DELETE"}
    if is_writing:
        codes.update(OF_WRITES)
    if method == "POST":
        codes.update(OF_POSTS)
    if operation.request or operation.query or is_list:
        codes.add("validation_failed")
    if "{" in path:
        codes.add("not_found")
    if method == "GET" and FORMER.search(path):
        codes.add("moved")
    codes.update(_of_access(operation, path, is_writing))
    return codes | {"second_factor_required"} if "forbidden" in codes else codes


def _of_access(operation: Operation, path: str, is_writing: bool) -> Iterator[str]:
    level = operation.level
    if level is not Level.PUBLIC:
        yield "not_authenticated"
        yield "token_scope"
    if level is Level.STAFF:
        yield "staff_required"
    elif level > Level.NONE:
        yield "forbidden"
    if Level.STAFF > level > Level.READ:
        yield "role_required"
    if path.startswith("/teams/{") and not operation.even_inactive:
        yield "team_inactive"
    if is_writing and "{repo_slug}" in path:
        yield "repo_archived"
        if path.startswith("/users/{"):
            yield "owner_inactive"


def by_status(codes: set[str]) -> dict[int, list[str]]:
    """The codes of each status, sorted."""
    statuses: dict[int, list[str]] = {}
    for code in sorted(codes):
        statuses.setdefault(CODES[code][0], []).append(code)
    return dict(sorted(statuses.items()))
