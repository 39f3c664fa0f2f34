"""The actions of pulls and reviews. Each makes one change and records its event.

Each action first checks the caller's access, and can raise the errors of
`ResourceAccess.require_change` besides its own: 401, 403 and 409.
"""

from apps.pulls.actions.auto_merging import cancel_auto_merge, set_auto_merge
from apps.pulls.actions.commenting import comment_on_line, create_comment
from apps.pulls.actions.merging import merge_pull
from apps.pulls.actions.pulls import (
    create_pull,
    create_review,
    delete_review,
    update_pull,
    update_review,
)
from apps.pulls.actions.viewing import mark_file, see_version, set_viewed

__all__ = [
    "cancel_auto_merge",
    "comment_on_line",
    "create_comment",
    "create_pull",
    "create_review",
    "delete_review",
    "mark_file",
    "merge_pull",
    "see_version",
    "set_auto_merge",
    "set_viewed",
    "update_pull",
    "update_review",
]
