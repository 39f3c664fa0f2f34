"""Actions on repositories. Each is one transaction with one change and its event."""

from apps.repos.actions.forks import complete_fork, create_fork, fail_fork
from apps.repos.actions.protections import (
    add_approver,
    create_protection,
    delete_protection,
    remove_approver,
    update_protection,
)
from apps.repos.actions.repos import create_repo, update_repo

__all__ = [
    "add_approver",
    "complete_fork",
    "create_fork",
    "create_protection",
    "create_repo",
    "delete_protection",
    "fail_fork",
    "remove_approver",
    "update_protection",
    "update_repo",
]
