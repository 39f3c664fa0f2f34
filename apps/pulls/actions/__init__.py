"""The actions of pulls and reviews. Each makes one change and records its event.

Each action first checks the caller's access, and can raise the errors of
`ResourceAccess.require_change` besides its own: 401, 403 and 409.
"""

from apps.pulls.actions.auto_merging import cancel_auto_merge, set_auto_merge
from apps.pulls.actions.branches import (
    delete_source_branch,
    restore_source_branch,
    update_branch,
)
from apps.pulls.actions.commenting import comment_on_line, create_comment
from apps.pulls.actions.drafting import (
    add_draft_comment,
    delete_draft_comment,
    discard_draft,
    submit_draft,
    update_draft,
    update_draft_comment,
)
from apps.pulls.actions.merging import merge_pull
from apps.pulls.actions.pulls import (
    create_pull,
    create_review,
    delete_review,
    update_pull,
    update_review,
)
from apps.pulls.actions.reviewing import change_reviewers, set_reviewers
from apps.pulls.actions.suggesting import apply_suggestions
from apps.pulls.actions.viewing import mark_file, see_version, set_viewed

__all__ = [
    "add_draft_comment",
    "apply_suggestions",
    "cancel_auto_merge",
    "change_reviewers",
    "comment_on_line",
    "create_comment",
    "create_pull",
    "create_review",
    "delete_draft_comment",
    "delete_review",
    "delete_source_branch",
    "discard_draft",
    "mark_file",
    "merge_pull",
    "restore_source_branch",
    "see_version",
    "set_auto_merge",
    "set_reviewers",
    "set_viewed",
    "submit_draft",
    "update_branch",
    "update_draft",
    "update_draft_comment",
    "update_pull",
    "update_review",
]
