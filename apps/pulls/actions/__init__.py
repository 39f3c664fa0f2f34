"""The actions of pulls and reviews. Each makes one change and records its event.

Each action first checks the caller's access, and can raise the errors of
`ResourceAccess.require_change` besides its own: 401, 403 and 409.
"""

from apps.pulls.actions.merging import merge_pull
from apps.pulls.actions.pulls import (
    create_pull,
    create_review,
    delete_review,
    update_pull,
    update_review,
)

__all__ = [
    "create_pull",
    "create_review",
    "delete_review",
    "merge_pull",
    "update_pull",
    "update_review",
]
