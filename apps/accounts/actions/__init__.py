"""What changes accounts. Each function is one transaction, one change and its event."""

from apps.accounts.actions.tokens import create_token, delete_token, revoke_token
from apps.accounts.actions.users import (
    change_password,
    create_user,
    deactivate_user,
    reactivate_user,
    update_user,
)

__all__ = [
    "change_password",
    "create_token",
    "create_user",
    "deactivate_user",
    "delete_token",
    "reactivate_user",
    "revoke_token",
    "update_user",
]
