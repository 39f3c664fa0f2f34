"""What changes repositories. Each function is one transaction, one change and its event."""

from apps.repos.actions.repos import create_repo, update_repo

__all__ = ["create_repo", "update_repo"]
