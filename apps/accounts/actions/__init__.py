"""What changes accounts. Each function is one transaction, one change and its event."""

from apps.accounts.actions.invites import create_invite, delete_invite, expire_invite, update_invite
from apps.accounts.actions.tokens import create_token, delete_token, revoke_token
from apps.accounts.actions.users import (
    change_password,
    create_user,
    deactivate_user,
    reactivate_user,
    sign_up,
    update_user,
)

__all__ = [
    "change_password",
    "create_invite",
    "create_token",
    "create_user",
    "deactivate_user",
    "delete_invite",
    "delete_token",
    "expire_invite",
    "reactivate_user",
    "revoke_token",
    "sign_up",
    "update_invite",
    "update_user",
]
