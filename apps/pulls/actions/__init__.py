"""What changes pulls and reviews. Each function is one change and its event.

Each asks first whether the caller may: besides the errors named there, 401, 403 and 409 of
`ResourceAccess.require_change`.
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
